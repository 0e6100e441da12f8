package osstest

import (
	"encoding/xml"
	"net/http"
)

const maxBatch = 1000

type deleteRequest struct {
	XMLName xml.Name `xml:"Delete"`
	Quiet   bool     `xml:"Quiet"`
	Objects []struct {
		Key       string  `xml:"Key"`
		VersionID *string `xml:"VersionId"`
	} `xml:"Object"`
}

type deleted struct {
	Key             string `xml:"Key"`
	VersionID       string `xml:"VersionId,omitempty"`
	DeleteMarker    bool   `xml:"DeleteMarker,omitempty"`
	MarkerVersionID string `xml:"DeleteMarkerVersionId,omitempty"`
}

type deleteResult struct {
	XMLName      xml.Name  `xml:"DeleteResult"`
	EncodingType string    `xml:"EncodingType,omitempty"`
	Deleted      []deleted `xml:"Deleted"`
}

// deleteMultipleObjects checks the whole batch before it deletes anything; the
// deletes themselves are one after the other, as in the service.
func (e *engine) deleteMultipleObjects(c *call, b *bucket) (reply, error) {
	if c.header("Content-MD5") == "" {
		return reply{}, refuse(http.StatusBadRequest, "MissingArgument", "Missing Some Required Arguments.")
	}
	enc, err := c.encoder()
	if err != nil {
		return reply{}, err
	}
	var req deleteRequest
	if xml.Unmarshal(c.body, &req) != nil || len(req.Objects) == 0 || len(req.Objects) > maxBatch {
		return reply{}, malformedXML()
	}
	for _, o := range req.Objects {
		if !validKey(o.Key) {
			return reply{}, refuse(http.StatusBadRequest, "InvalidObjectName", "The specified object is not valid.")
		}
	}
	out := deleteResult{EncodingType: c.query["encoding-type"]}
	for _, o := range req.Objects {
		d := deleted{Key: enc(o.Key)}
		if o.VersionID != nil {
			d.VersionID = *o.VersionID
		}
		h, err := e.remove(c, b, o.Key, d.VersionID, o.VersionID != nil)
		if err != nil {
			return reply{}, err
		}
		if h.Get("x-oss-delete-marker") == "true" {
			d.DeleteMarker, d.MarkerVersionID = true, h.Get("x-oss-version-id")
		}
		out.Deleted = append(out.Deleted, d)
	}
	if req.Quiet {
		return reply{}, nil
	}
	return xmlReply(out), nil
}
