package main

import (
	"context"
	"net/url"
	"regexp"
	"strings"

	"github.com/oncegate/oncegate/internal/aliyun"
	"github.com/oncegate/oncegate/internal/doctor"
)

// regionIn finds the region in the services' own hosts:
//
//	<instance>.<region>.ots.aliyuncs.com, .vpc.tablestore, .tablestore, .ots-internal
//	oss-<region>.aliyuncs.com, oss-<region>-internal.aliyuncs.com
var regionIn = []*regexp.Regexp{
	regexp.MustCompile(`^[^.]+\.([a-z0-9-]+)\.(?:ots|ots-internal|tablestore|vpc\.tablestore)\.aliyuncs\.com$`),
	regexp.MustCompile(`^oss-([a-z0-9-]+?)(?:-internal)?\.aliyuncs\.com$`),
}

// regionOf is the region that the environment names or its endpoints show, "" for none.
func regionOf(env *aliyun.Env) string {
	if region := env.Text("ONCEGATE_REGION", ""); region != "" {
		return region
	}
	for _, name := range []string{"ONCEGATE_TABLESTORE_ENDPOINT", "ONCEGATE_OSS_ENDPOINT"} {
		u, err := url.Parse(env.Text(name, ""))
		if err != nil {
			continue
		}
		for _, pattern := range regionIn {
			if m := pattern.FindStringSubmatch(u.Hostname()); m != nil {
				return m[1]
			}
		}
	}
	return ""
}

// endpoint is a service's address: the variable's, or the one that the region
// (and the account) make; "" where neither is known.
func endpoint(env *aliyun.Env, variable, region, pattern, account string) string {
	if set := env.Text(variable, ""); set != "" {
		return set
	}
	if region == "" || (strings.Contains(pattern, "ACCOUNT") && account == "") {
		return ""
	}
	return strings.NewReplacer("REGION", region, "ACCOUNT", account).Replace(pattern)
}

// sourceAt is a client of a service at an endpoint, each with a clock of its own.
func sourceAt[I any, C any](name, variable, at string, o aliyun.Options, create func(string, aliyun.Options) (C, error)) source[I] {
	s := source[I]{name: name, skew: new(aliyun.Skew)}
	if at == "" {
		s.missing = &doctor.Missing{Reason: doctor.Unset, What: variable}
		return s
	}
	if c, err := o.Credentials(context.Background()); err != nil || c.AccessKeyID == "" || c.AccessKeySecret == "" {
		s.missing = &doctor.Missing{Reason: doctor.Unset, What: "ALIBABA_CLOUD_ACCESS_KEY_ID or _SECRET"}
		return s
	}
	o.Skew = s.skew
	client, err := create(at, o)
	if err != nil {
		s.missing = &doctor.Missing{Reason: doctor.NoAnswer, What: name, Where: "no client can be made"}
		return s
	}
	s.client = any(client).(I)
	return s
}

// onCloud looks at the deployment that the environment names. A variable that is
// missing is a problem to be judged, and what it leads to is not looked at.
func (a *app) onCloud(ctx context.Context, bus string) *examination {
	env := aliyun.NewEnv(a.getenv)
	cloud := env.Cloud()
	options := cloudOptions(env)
	e := &examination{
		environment: cloud.Environment, bus: bus, instance: cloud.Instance, bucketName: cloud.Bucket,
		function: env.Text("ONCEGATE_FUNCTION", localFunctionName), intake: env.Text("ONCEGATE_INTAKE_FUNCTION", localIntakeName),
		secret: a.keySecret(targetCloud),
	}
	if e.bus == "" {
		e.bus = cloud.Environment
	}
	if err := env.Err(); err != nil {
		e.problems = strings.Split(err.Error(), "\n")
	}
	e.identity = sourceAt[identityReader]("sts", "ONCEGATE_STS_ENDPOINT", env.Text("ONCEGATE_STS_ENDPOINT", "https://sts.aliyuncs.com"), options, aliyun.NewSTS)
	account := ""
	if e.identity.missing == nil {
		if id, err := e.identity.client.CallerIdentity(ctx); err == nil {
			account = id.AccountID
		}
	}
	e.tables = sourceAt[tableReader]("tablestore", "ONCEGATE_TABLESTORE_ENDPOINT", cloud.Endpoint, options, func(at string, o aliyun.Options) (*aliyun.Tablestore, error) {
		return aliyun.NewTablestore(at, cloud.Instance, o)
	})
	e.bucket = sourceAt[bucketReader]("oss", "ONCEGATE_OSS_ENDPOINT", cloud.OSSEndpoint, options, func(at string, o aliyun.Options) (*aliyun.Bucket, error) {
		return aliyun.NewBucket(at, cloud.Bucket, o)
	})
	if cloud.Instance == "" && e.tables.missing == nil {
		e.tables.missing = &doctor.Missing{Reason: doctor.Unset, What: "ONCEGATE_TABLESTORE_INSTANCE"}
	}
	if cloud.Bucket == "" && e.bucket.missing == nil {
		e.bucket.missing = &doctor.Missing{Reason: doctor.Unset, What: "ONCEGATE_OSS_BUCKET"}
	}
	region := regionOf(env)
	whence := ""
	if region == "" {
		whence = "ONCEGATE_REGION or "
	}
	e.functions = sourceAt[functionReader]("fc", whence+"ONCEGATE_FC_ENDPOINT",
		endpoint(env, "ONCEGATE_FC_ENDPOINT", region, "https://ACCOUNT.REGION.fc.aliyuncs.com", account), options, aliyun.NewFunctions)
	e.rules = sourceAt[busReader]("eventbridge", whence+"ONCEGATE_EVENTBRIDGE_API_ENDPOINT",
		endpoint(env, "ONCEGATE_EVENTBRIDGE_API_ENDPOINT", region, "https://eventbridge-console.REGION.aliyuncs.com", account), options, aliyun.NewEventBridge)
	e.queues = sourceAt[queueReader]("mns", whence+"ONCEGATE_MNS_ENDPOINT",
		endpoint(env, "ONCEGATE_MNS_ENDPOINT", region, "https://mns-open.REGION.aliyuncs.com", account), options, aliyun.NewMNS)
	if e.bus == "" && e.rules.missing == nil {
		e.rules.missing = &doctor.Missing{Reason: doctor.Unset, What: "ONCEGATE_ENVIRONMENT"}
	}
	return e
}
