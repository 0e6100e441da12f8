package osstest

import (
	"encoding/xml"
	"fmt"
	"net/http"
)

// refusal is an error that the service answers with.
type refusal struct {
	status  int
	code    string
	message string
	header  http.Header // extra answer headers, may be nil
}

func (e *refusal) Error() string { return fmt.Sprintf("%d %s: %s", e.status, e.code, e.message) }

func refuse(status int, code, message string) *refusal {
	return &refusal{status: status, code: code, message: message}
}

func invalidArgument(message string) *refusal {
	return refuse(http.StatusBadRequest, "InvalidArgument", message)
}

func malformedXML() *refusal {
	return refuse(http.StatusBadRequest, "MalformedXML", "The XML you provided was not well-formed or did not validate against our published schema.")
}

func notImplemented(what string) *refusal {
	return refuse(http.StatusNotImplemented, "NotImplemented", "This stand-in does not implement "+what+".")
}

func noSuchBucket() *refusal {
	return refuse(http.StatusNotFound, "NoSuchBucket", "The specified bucket does not exist.")
}

type errorBody struct {
	XMLName   xml.Name `xml:"Error"`
	Code      string   `xml:"Code"`
	Message   string   `xml:"Message"`
	RequestID string   `xml:"RequestId"`
	HostID    string   `xml:"HostId"`
}

// marshal returns the XML document of an answer. Its argument is always one of
// this package's own structs, which can't fail to encode.
func marshal(v any) []byte {
	out, err := xml.Marshal(v)
	if err != nil {
		panic(fmt.Sprintf("encode %T: %v", v, err))
	}
	return append([]byte(xml.Header), out...)
}
