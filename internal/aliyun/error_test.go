package aliyun

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/aliyun/aliyun-oss-go-sdk/oss"
	"github.com/aliyun/aliyun-tablestore-go-sdk/tablestore"
)

const private = "buyer Zhang 13800138000"

func TestTablestoreErrorsByCode(t *testing.T) {
	for _, c := range []struct {
		status int
		code   string
		want   Kind
	}{
		{403, "OTSConditionCheckFail", KindCondition},
		{409, "OTSRowOperationConflict", KindThrottled},
		{403, "OTSNotEnoughCapacityUnit", KindThrottled},
		{403, "OTSCapacityUnitExhausted", KindThrottled},
		{404, "OTSTableNotReady", KindThrottled},
		{403, "OTSQuotaExhausted", KindThrottled},
		{403, "OTSTooFrequentReservedThroughputAdjustment", KindThrottled},
		{403, "OTSAuthFailed", KindDenied},
		{403, "OTSNoPermissionAccess", KindDenied},
		{404, "OTSObjectNotExist", KindNotFound},
		{409, "OTSObjectAlreadyExist", KindExists},
		{400, "OTSParameterInvalid", KindInvalid},
		{400, "OTSInvalidPK", KindInvalid},
		{400, "OTSOutOfRowSizeLimit", KindInvalid},
		{400, "OTSOutOfColumnCountLimit", KindInvalid},
		{413, "OTSRequestBodyTooLarge", KindInvalid},
		{405, "OTSMethodNotAllowed", KindInvalid},
		{400, "OTSForbiddenUpdateCapacityUnit", KindInvalid},
		{408, "OTSRequestTimeout", KindUnknown},
		{503, "OTSTimeout", KindUnknown},
		{503, "OTSServerBusy", KindUnknown},
		{503, "OTSServerUnavailable", KindUnknown},
		{503, "OTSPartitionUnavailable", KindUnknown},
		{503, "OTSStorageServerBusy", KindUnknown},
		{500, "OTSInternalServerError", KindUnknown},
		{503, "OTSOperationThrottled", KindUnknown},
		{400, "OTSClientUnknownError", KindUnknown},
		{400, "garbage", KindUnknown},
		{200, "OTSParameterInvalid", KindUnknown},
		{0, "", KindUnknown},
	} {
		t.Run(fmt.Sprintf("%d %s", c.status, c.code), func(t *testing.T) {
			sdk := &tablestore.OtsError{Code: c.code, Message: private, RequestId: "0005f-1a", HttpStatusCode: c.status}
			err := tablestoreError("PutRow", fmt.Errorf("wrapped: %w", sdk))
			wantError(t, err, c.want, c.code, c.status, "0005f-1a")
			if !errors.Is(err, sdk) {
				t.Error("the SDK's error is not in the chain")
			}
		})
	}
}

func wantError(t *testing.T, err error, kind Kind, code string, status int, request string) {
	t.Helper()
	var e *Error
	if !errors.As(fmt.Errorf("outer: %w", err), &e) || KindOf(err) != kind || e.Code != code || e.Status != status || e.RequestID != request {
		t.Errorf("got %#v, want kind %s", err, kind)
	}
	if strings.Contains(err.Error(), "Zhang") || !strings.Contains(err.Error(), code) || !strings.Contains(err.Error(), request) {
		t.Errorf("text %q", err)
	}
}

func TestOSSErrorsByCodeAndStatus(t *testing.T) {
	for _, c := range []struct {
		status int
		code   string
		want   Kind
	}{
		{409, "FileAlreadyExists", KindCondition},
		{409, "BucketAlreadyExists", KindExists},
		{403, "AccessDenied", KindDenied},
		{403, "InvalidAccessKeyId", KindDenied},
		{403, "SignatureDoesNotMatch", KindDenied},
		{403, "RequestTimeTooSkewed", KindDenied},
		{403, "SecurityTokenExpired", KindDenied},
		{401, "", KindDenied},
		{404, "NoSuchKey", KindNotFound},
		{404, "NoSuchBucket", KindNotFound},
		{404, "NoSuchVersion", KindNotFound},
		{429, "TooManyRequests", KindThrottled},
		{503, "DownloadTrafficRateLimitExceeded", KindThrottled},
		{503, "UploadTrafficRateLimitExceeded", KindThrottled},
		{400, "InvalidArgument", KindInvalid},
		{400, "InvalidObjectName", KindInvalid},
		{409, "OperationAborted", KindInvalid},
		{413, "EntityTooLarge", KindInvalid},
		{501, "NotImplemented", KindUnknown},
		{400, "RequestTimeout", KindUnknown},
		{408, "", KindUnknown},
		{500, "InternalError", KindUnknown},
		{503, "ServiceUnavailable", KindUnknown},
		{502, "", KindUnknown},
		{0, "", KindUnknown},
	} {
		t.Run(fmt.Sprintf("%d %s", c.status, c.code), func(t *testing.T) {
			sdk := oss.ServiceError{Code: c.code, Message: private, RequestID: "5C3D9175B6FC", StatusCode: c.status, RawMessage: private}
			wantError(t, ossError("GetObject", fmt.Errorf("wrapped: %w", sdk)), c.want, c.code, c.status, "5C3D9175B6FC")
		})
	}
}

func TestErrorsHoldNoTextOfTheService(t *testing.T) {
	for _, text := range []string{private, strings.Repeat("a", 65), "a b", "码", "a\nb", `"`} {
		for service, err := range map[string]error{
			"tablestore": tablestoreError("GetRow", &tablestore.OtsError{Code: text, Message: text, RequestId: text, HttpStatusCode: 400}),
			"oss":        ossError("GetObject", oss.ServiceError{Code: text, Message: text, RequestID: text, StatusCode: 400}),
			"network":    tablestoreError("GetRow", errors.New(text)),
			"oss client": ossError("GetObject", errors.New(text)),
		} {
			if strings.Contains(strings.TrimPrefix(err.Error(), "call "), text) && text != "a b" || strings.Contains(err.Error(), "Zhang") {
				t.Errorf("%s: %q", service, err)
			}
		}
	}
	if KindOf(nil) != KindUnknown || KindOf(errors.New("x")) != KindUnknown {
		t.Error("an error of another sort has a kind")
	}
}
