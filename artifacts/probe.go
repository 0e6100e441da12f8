package artifacts

import (
	"context"
	"errors"
	"fmt"

	"github.com/oncegate/oncegate/internal/aliyun"
)

// absentName is the name of an object that nobody writes.
const absentName = "oncegate-probe/no-object"

// Probe asks the bucket with read-only calls whether it lets us in ("access"),
// and whether it is there, where the endpoint says ("target"). result is a fixed
// text with codes. The error is always nil: a bucket can always be asked.
func (s *Store) Probe(ctx context.Context, ask string) (ok bool, result string, err error) {
	text := "GetObject of a name that cannot exist: "
	_, err = s.bucket.Get(ctx, absentName, "")
	var call *aliyun.Error
	switch {
	case err == nil:
		return false, text + "it exists", nil
	case !errors.As(err, &call):
		return false, text + "no answer", nil
	case call.Code != "NoSuchKey":
		return false, text + said(call), nil
	}
	text += "NoSuchKey"
	if ask != "target" {
		return true, text, nil
	}
	location, elsewhere, err := s.bucket.Location(ctx)
	switch {
	case errors.As(err, &call):
		return false, "GetBucketInfo: " + said(call), nil
	case err != nil:
		return false, "GetBucketInfo: no answer", nil
	case elsewhere:
		return false, fmt.Sprintf("GetBucketInfo: the bucket is in %s, the endpoint is another region's", location), nil
	}
	return true, text + "; GetBucketInfo: " + location, nil
}

func said(e *aliyun.Error) string {
	if e.Code == "" && e.Status == 0 {
		return "no answer"
	}
	return fmt.Sprintf("HTTP %d %s", e.Status, e.Code)
}
