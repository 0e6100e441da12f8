package fctest

import (
	"context"
	"errors"
	"net/http"
	"time"
)

var errExpired = errors.New("event is too old")

// carry runs an asynchronous invocation to its end, which its destination is
// told of; false says that the function was closed first.
func (f *Function) carry(c *asyncCall) bool {
	o := &f.o.Async
	last := Response{FunctionError: ConditionExpired}
	throttled, pause := time.Duration(0), throttleFirst
	for retries := 0; ; {
		resp, err := f.attempt(c)
		var (
			broken *StartError
			wait   time.Duration
		)
		switch {
		case err == nil && resp.FunctionError == "":
			return f.report(c, o.OnSuccess, "", resp)
		case err == nil:
			if retries++; retries > o.MaxRetries {
				return f.report(c, o.OnFailure, resp.FunctionError, resp)
			}
			last, wait = resp, o.RetryWait(retries)
		case errors.Is(err, ErrResourceExhausted):
			if throttled += pause; throttled > throttleSpan {
				return f.report(c, o.OnFailure, ConditionThrottled, Response{StatusCode: http.StatusTooManyRequests, FunctionError: ConditionThrottled})
			}
			wait, pause = pause, pause*2
		case errors.Is(err, errExpired):
			return f.report(c, o.OnFailure, ConditionExpired, last)
		case errors.As(err, &broken):
			return f.report(c, o.OnFailure, ConditionNoStart, Response{StatusCode: http.StatusInternalServerError, FunctionError: ConditionNoStart})
		default:
			return false
		}
		if o.Sleep(f.async.ctx, f.scaled(wait)) != nil {
			return false
		}
	}
}

// attempt is one run, as soon as there is an instance for it. Close, not a
// ctx, ends it: a result that comes as the function closes still counts.
func (f *Function) attempt(c *asyncCall) (Response, error) {
	if err := f.slot(context.Background()); err != nil {
		return Response{}, err
	}
	defer func() { <-f.slots }()
	if f.o.Now().Sub(c.enqueued) > f.scaled(f.o.Async.MaxAge) {
		return Response{}, errExpired
	}
	if err := f.begin(); err != nil {
		return Response{}, err
	}
	defer f.work.Done()
	r := c.Request
	r.RetryCount = f.async.count(c, 1) - 1
	resp, err := f.run(r)
	var broken *StartError
	if errors.As(err, &broken) {
		f.async.count(c, -1)
	}
	return resp, err
}

func (f *Function) scaled(d time.Duration) time.Duration {
	return time.Duration(float64(d) / f.o.Async.TimeScale)
}

func sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
