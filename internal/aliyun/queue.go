package aliyun

import (
	"context"
	"net/url"
	"strings"
	"time"
)

// MNS reads attributes of queues of Simple Message Queue, formerly MNS. It is
// safe for concurrent use.
// https://api.aliyun.com/document/Mns-open/2022-01-19/overview
type MNS struct{ api *openAPI }

// NewMNS returns a client of a control endpoint such as
// https://mns-open.cn-hangzhou.aliyuncs.com; it makes no call.
func NewMNS(endpoint string, o Options) (*MNS, error) {
	api, err := newOpenAPI("mns", "2022-01-19", endpoint, o)
	if err != nil {
		return nil, err
	}
	return &MNS{api}, nil
}

// Queue is what a queue does with its messages.
type Queue struct {
	Name       string
	Retention  time.Duration // of a message that nobody takes
	MaxMessage int           // bytes
	Active     int           // messages that can be received
}

// Queue reads a queue's attributes. One that is not there is an *Error of KindNotFound.
func (m *MNS) Queue(ctx context.Context, name string) (Queue, error) {
	var data struct {
		QueueName              string
		MessageRetentionPeriod int64
		MaximumMessageSize     int
		ActiveMessages         int
	}
	err := m.api.rpc(ctx, "GetQueueAttributes", name, url.Values{"QueueName": {name}}, nil, &data)
	if err != nil {
		return Queue{}, err
	}
	return Queue{data.QueueName, time.Duration(data.MessageRetentionPeriod) * time.Second, data.MaximumMessageSize, data.ActiveMessages}, nil
}

// QueueOf is the queue's name in its ARN, which is spelled with or without a
// slash before queues/; "" for anything that is no queue.
func QueueOf(arn string) string {
	fields := strings.SplitN(arn, ":", 5)
	if len(fields) != 5 || fields[0] != "acs" || fields[1] != "mns" {
		return ""
	}
	name, ok := strings.CutPrefix(strings.TrimPrefix(fields[4], "/"), "queues/")
	if !ok || strings.Contains(name, "/") {
		return ""
	}
	return name
}
