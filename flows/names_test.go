package flows

import (
	"errors"
	"fmt"
	"strings"
	"testing"
)

// keyed loads a flow whose key is made of fields of data, each "name" or
// "name|yaml that is added to the field".
func keyed(fields ...string) error {
	key, data := "{op: {const: f}", ""
	for _, f := range fields {
		name, more, _ := strings.Cut(f, "|")
		if more != "" {
			more = ", " + more
		}
		key += fmt.Sprintf(`, "%s": {path: "$.data['%s']"%s}`, name, name, more)
		data += fmt.Sprintf(`,"%s":"1"`, name)
	}
	sample := `'{"specversion":"1.0","id":"e","source":"s","type":"t","aliyuneventbusname":"b","data":{` + strings.TrimPrefix(data, ",") + `}}'`
	_, err := loadText(flowText(set("key", key+"}", "sample", sample)))
	return err
}

func refused(t *testing.T, err error, field, reason string) {
	t.Helper()
	var ce *ConfigError
	if !errors.As(err, &ce) || ce.Field != field || !strings.Contains(err.Error(), reason) {
		t.Errorf("got %v, want an error of %s: %s", err, field, reason)
	}
}

func TestFieldsThatNameNoBusinessAreRefusedUnlessTheySayWhy(t *testing.T) {
	for reason, names := range map[string][]string{
		clockLike: {
			"time", "created_at", "createdAt", "sent-at", "updateTime", "update_time", "HTTPTime", "time2", "timestamp", "time_stamp", "eventTimestamp", "ts",
			"order.ts", "now", "system_clock", "dateTime", "gmt_create", "gmtModified", "创建时间", "时间戳", "订单时间",
		},
		randomLike:    {"random", "rand", "nonce", "requestNonce", "salt", "random-number", "随机数"},
		traceLike:     {"trace", "trace_id", "traceId", "traceid", "traceparent", "tracestate", "span_id", "spanID", "request_id", "requestId", "requestid", "x-request-id", "链路编号", "请求ID"},
		eventIDLike:   {"event_id", "eventId", "eventID", "eventid", "event-id", "original_event_id", "事件ID"},
		sensitiveLike: {"email", "userEmail", "e-mail", "emails", "phone", "phone2", "phone_number", "buyerPhone", "mobile", "tel", "id_card", "idCard", "id_card_no", "userIDCardNo", "idcard", "passport_no", "access_token", "SMSToken", "password", "passWord", "client_secret", "ssn", "手机", "手机号", "收件人电话", "邮箱地址", "身份证号", "姓名", "登录密码", "令牌"},
	} {
		for _, name := range names {
			t.Run(name, func(t *testing.T) {
				refused(t, keyed("order_no", name), "key."+name, reason)
				refused(t, keyed("order_no", name+"|because: '  '"), "key."+name, reason)
				if err := keyed("order_no", name+"|because: the business says so"); err != nil {
					t.Errorf("with a reason: %v", err)
				}
				err := keyed("order_no", name+"|sensitive: true")
				if reason == sensitiveLike {
					if err != nil {
						t.Errorf("being sensitive: %v", err)
					}
				} else {
					refused(t, err, "key."+name, reason)
				}
			})
		}
	}
}

func TestFieldsThatNameABusinessAreTaken(t *testing.T) {
	for _, name := range []string{
		"order_no", "orderNo", "order-no", "ticket_id", "ticketId", "ticketID", "input_version", "document_number", "contract_no", "sku", "invoice_code", "message_id", "messageId",
		"id", "no", "uuid", "sha256", "format", "chat_id", "category", "batch_no", "stamp_no", "telemetry_no", "renown", "emailed_invoice_no_hash", "spanish_no", "datum_no",
		"file_id", "fileVersion", "file_sha256", "shop_order_no", "user_coupon_code", "company_contract_no", "month_statement_no",
		"订单号", "合同编号", "工单编号", "文件编号", "公司合同编号", "发票代码", "输入版本", "订单ID",
	} {
		t.Run(name, func(t *testing.T) {
			if err := keyed(name); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestNamesDatesAndFileNamesAloneAreNoKey(t *testing.T) {
	for _, names := range []string{
		"name", "title", "file", "file_name", "fileName", "filename", "file_path", "file_name_cn", "date", "order_date", "day", "month", "label", "names",
		"tenant_id", "tenantId", "org", "company_code", "shopId", "account", "store_id", "user_id", "租户", "租户ID", "店铺编号", "公司",
		"tenant_id file_name", "tenantId fileName date", "company title", "租户编号 文件名称", "标题", "订单日期", "user_id day",
	} {
		t.Run(names, func(t *testing.T) {
			fields := strings.Fields(names)
			refused(t, keyed(fields...), "key", "names, dates or file names alone")
			if err := keyed(append(fields, "order_no")...); err != nil {
				t.Errorf("with a number beside it: %v", err)
			}
			fields[0] += "|because: there is one a day"
			if err := keyed(fields...); err != nil {
				t.Errorf("with a reason: %v", err)
			}
		})
	}
}

func TestAttributesOfOneDeliveryAreNeverKeyFields(t *testing.T) {
	const sample = `'{"specversion":"1.0","id":"e","source":"s","type":"t","aliyuneventbusname":"b","subject":"x","time":"now","traceparent":"p","tracestate":"q",` +
		`"aliyunpublishtime":"n","aliyunpublishaddr":"a","data":{"no":"1","id":"i"}}'`
	load := func(field string) error {
		_, err := loadText(flowText(set("key", "{no: {path: $.data.no}, other: {"+field+"}, op: {const: f}}", "sample", sample)))
		return err
	}
	for _, path := range []string{"$.id", "$.time", "$.traceparent", "$.tracestate", "$.aliyunpublishtime", "$.aliyunpublishaddr", "$['id']"} {
		for _, more := range []string{"", ", because: it is meant so", ", sensitive: true"} {
			if err := load("path: " + `"` + path + `"` + more); err == nil {
				t.Errorf("%s%s was taken", path, more)
			} else {
				refused(t, err, "key.other", "looks like")
			}
		}
	}
	for _, path := range []string{"$.subject", "$.data.id", "$.source"} {
		if err := load("path: " + path); err != nil {
			t.Errorf("%s: %v", path, err)
		}
	}
}

func TestAFieldIsSuspectByItsOwnNameAndByItsPath(t *testing.T) {
	const sample = `'{"specversion":"1.0","id":"e","source":"s","type":"t","aliyuneventbusname":"b","data":{"no":"1","buyer":{"phones":["1"]},"at":{"no":"1"}}}'`
	for _, c := range []struct{ field, path, reason string }{
		{"created_at", "$.data.no", clockLike},
		{"to", "$.data.buyer.phones[0]", sensitiveLike},
		{"to", "$.data.buyer['phones'][-1]", sensitiveLike},
		{"to", "$.data.at.no", ""},
	} {
		_, err := loadText(flowText(set("key", "{"+c.field+": {path: \""+c.path+"\"}, op: {const: f}}", "sample", sample)))
		if c.reason != "" {
			refused(t, err, "key."+c.field, c.reason)
		} else if err != nil {
			t.Errorf("%s: %v", c.path, err)
		}
	}
}
