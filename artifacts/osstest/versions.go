package osstest

import (
	"encoding/xml"
	"maps"
	"slices"
	"strings"
)

type versionEntry struct {
	XMLName      xml.Name
	Key          string `xml:"Key"`
	VersionID    string `xml:"VersionId"`
	IsLatest     bool   `xml:"IsLatest"`
	LastModified string `xml:"LastModified"`
	ETag         string `xml:"ETag,omitempty"`
	Type         string `xml:"Type,omitempty"`
	Size         *int   `xml:"Size"`
	StorageClass string `xml:"StorageClass,omitempty"`
	Owner        owner  `xml:"Owner"`
}

type versionList struct {
	XMLName             xml.Name       `xml:"ListVersionsResult"`
	Name                string         `xml:"Name"`
	Prefix              string         `xml:"Prefix"`
	KeyMarker           string         `xml:"KeyMarker"`
	VersionIDMarker     string         `xml:"VersionIdMarker"`
	MaxKeys             int            `xml:"MaxKeys"`
	Delimiter           string         `xml:"Delimiter"`
	EncodingType        string         `xml:"EncodingType,omitempty"`
	IsTruncated         bool           `xml:"IsTruncated"`
	NextKeyMarker       string         `xml:"NextKeyMarker,omitempty"`
	NextVersionIDMarker string         `xml:"NextVersionIdMarker,omitempty"`
	Entries             []versionEntry // Version and DeleteMarker, mixed
	CommonPrefixes      []commonPrefix `xml:"CommonPrefixes"`
}

// listObjectVersions lists keys in order and the versions of a key from the
// newest to the oldest.
func (e *engine) listObjectVersions(c *call, b *bucket) (reply, error) {
	limit, err := c.maxKeys()
	if err != nil {
		return reply{}, err
	}
	enc, err := c.encoder()
	if err != nil {
		return reply{}, err
	}
	if c.query["versions"] != "" {
		return reply{}, invalidArgument("versions takes no value.")
	}
	prefix, delimiter := c.query["prefix"], c.query["delimiter"]
	keyMarker, idMarker := c.query["key-marker"], c.query["version-id-marker"]
	if idMarker != "" && keyMarker == "" {
		return reply{}, invalidArgument("A version-id-marker needs a key-marker.")
	}
	out := versionList{
		Name: b.Name, Prefix: enc(prefix), KeyMarker: enc(keyMarker), VersionIDMarker: enc(idMarker),
		MaxKeys: limit, Delimiter: enc(delimiter), EncodingType: c.query["encoding-type"],
	}
	lastKey, lastID := "", ""
	full := func() bool {
		if len(out.Entries)+len(out.CommonPrefixes) < limit {
			return false
		}
		out.IsTruncated, out.NextKeyMarker, out.NextVersionIDMarker = true, enc(lastKey), enc(lastID)
		return true
	}
	for _, key := range slices.Sorted(maps.Keys(b.keys)) {
		if !strings.HasPrefix(key, prefix) || key < keyMarker || key == keyMarker && idMarker == "" {
			continue
		}
		if g := group(key, prefix, delimiter); g != "" {
			if g == keyMarker || g == lastKey {
				continue
			}
			if full() {
				break
			}
			out.CommonPrefixes = append(out.CommonPrefixes, commonPrefix{enc(g)})
			lastKey, lastID = g, ""
			continue
		}
		versions := slices.Clone(b.keys[key])
		slices.Reverse(versions)
		if key == keyMarker {
			i := slices.IndexFunc(versions, func(v *version) bool { return v.ID == idMarker })
			versions = versions[i+1:]
		}
		for _, v := range versions {
			if full() {
				return xmlReply(out), nil
			}
			out.Entries = append(out.Entries, v.entry(enc, v == b.current(key)))
			lastKey, lastID = key, v.ID
		}
	}
	return xmlReply(out), nil
}

func (v *version) entry(enc func(string) string, latest bool) versionEntry {
	x := versionEntry{
		XMLName: xml.Name{Local: "DeleteMarker"}, Key: enc(v.Key), VersionID: v.ID, IsLatest: latest,
		LastModified: v.Modified.UTC().Format(xmlTime), Owner: theOwner(),
	}
	if !v.Marker {
		size := len(v.Body)
		x.XMLName.Local, x.ETag, x.Type, x.Size, x.StorageClass = "Version", v.ETag, "Normal", &size, "Standard"
	}
	return x
}
