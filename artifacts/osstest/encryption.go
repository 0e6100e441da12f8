package osstest

import (
	"encoding/xml"
	"net/http"
)

// encryptionRule is a bucket's default encryption.
type encryptionRule struct {
	XMLName xml.Name `xml:"ServerSideEncryptionRule" json:"-"`
	Default struct {
		Algorithm string  `xml:"SSEAlgorithm"`
		Data      string  `xml:"KMSDataEncryption,omitempty" json:"-"`
		KeyID     string  `xml:"KMSMasterKeyID"`
		Others    []other `xml:",any" json:"-"`
	} `xml:"ApplyServerSideEncryptionByDefault"`
	Others []other `xml:",any" json:"-"`
}

func (e *engine) putBucketEncryption(c *call, b *bucket) (reply, error) {
	rule := &encryptionRule{}
	if xml.Unmarshal(c.body, rule) != nil || len(rule.Others)+len(rule.Default.Others) > 0 {
		return reply{}, malformedXML()
	}
	d := &rule.Default
	if err := checkAlgorithm(d.Algorithm); err != nil {
		return reply{}, err
	}
	switch {
	case d.Algorithm == "":
		return reply{}, badAlgorithm()
	case d.Data != "":
		return reply{}, notImplemented("KMSDataEncryption")
	case d.KeyID != "" && d.Algorithm != "KMS":
		return reply{}, invalidArgument("KMSMasterKeyID is not applicable if the default sse algorithm is not KMS")
	}
	set := b.settings
	set.Encryption = rule
	return reply{}, e.store.commit(change{settings: &set})
}

func (e *engine) getBucketEncryption(_ *call, b *bucket) (reply, error) {
	if b.Encryption == nil {
		return reply{}, refuse(http.StatusNotFound, "NoSuchServerSideEncryptionRule", "The server side encryption rule does not exist.")
	}
	return xmlReply(*b.Encryption), nil
}

func (e *engine) deleteBucketEncryption(_ *call, b *bucket) (reply, error) {
	set := b.settings
	set.Encryption = nil
	return reply{status: http.StatusNoContent}, e.store.commit(change{settings: &set})
}

// encrypt notes how an object is encrypted: as the call says, else as the
// bucket says.
func (v *version) encrypt(c *call, b *bucket) error {
	v.SSE, v.SSEKeyID = c.header("x-oss-server-side-encryption"), c.header("x-oss-server-side-encryption-key-id")
	if err := checkAlgorithm(v.SSE); err != nil {
		return err
	}
	if v.SSEKeyID != "" && v.SSE != "KMS" {
		return invalidArgument("A key id needs x-oss-server-side-encryption: KMS.")
	}
	if v.SSE == "" && b.Encryption != nil {
		v.SSE, v.SSEKeyID = b.Encryption.Default.Algorithm, b.Encryption.Default.KeyID
	}
	return nil
}

func badAlgorithm() *refusal {
	return refuse(http.StatusBadRequest, "InvalidEncryptionAlgorithmError", "The Encryption request you specified is not valid. Supported value: AES256/KMS")
}

func checkAlgorithm(name string) error {
	switch name {
	case "", "AES256", "KMS":
		return nil
	case "SM4":
		return notImplemented("SM4 encryption")
	}
	return badAlgorithm()
}
