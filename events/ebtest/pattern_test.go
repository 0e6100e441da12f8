package ebtest_test

import (
	"encoding/json"
	"testing"

	"github.com/oncegate/oncegate/events/ebtest"
)

func TestPatternsMatchAsDocumented(t *testing.T) {
	const sample = `{"specversion":"1.0","id":"e-1","source":"acs.oss","type":"oss:ObjectCreated:PutObject",
		"subject":"acs:oss:cn-hangzhou:1:pics/cat.jpg","priority":300,
		"data":{"state":"running","size":300.0,"count":5,"ip":"10.0.0.7","empty":"","none":null,"flag":true,
			"tags":["red","blue"],"object":{"key":"cat.jpg","meta":{"kind":"pic"}},
			"parts":[{"n":1,"ok":false},{"n":2,"ok":true}]}}`
	for _, tc := range []struct {
		name    string
		pattern string
		want    bool
	}{
		{"no pattern matches all", ``, true},
		{"null matches all", `null`, true},
		{"the empty object matches all", `{}`, true},
		{"an exact value", `{"source":["acs.oss"]}`, true},
		{"one of several exact values", `{"source":["acs.ecs","acs.oss"]}`, true},
		{"another exact value", `{"source":["acs.ecs"]}`, false},
		{"case counts", `{"source":["ACS.oss"]}`, false},
		{"all fields must match", `{"source":["acs.oss"],"type":["other"]}`, false},
		{"two fields", `{"source":["acs.oss"],"type":["oss:ObjectCreated:PutObject"]}`, true},
		{"a prefix", `{"type":[{"prefix":"oss:ObjectCreated:"}]}`, true},
		{"another prefix", `{"type":[{"prefix":"ObjectCreated:"}]}`, false},
		{"a prefix of a number", `{"priority":[{"prefix":"3"}]}`, false},
		{"a suffix", `{"subject":[{"suffix":".jpg"}]}`, true},
		{"another suffix", `{"subject":[{"suffix":".png"}]}`, false},
		{"contains", `{"type":[{"contains":"Created"}]}`, true},
		{"contains not", `{"type":[{"contains":"Removed"}]}`, false},
		{"a prefix or an exact value", `{"type":[{"prefix":"ecs:"},"oss:ObjectCreated:PutObject"]}`, true},
		{"anything but another value", `{"data":{"state":[{"anything-but":"initializing"}]}}`, true},
		{"anything but this value", `{"data":{"state":[{"anything-but":"running"}]}}`, false},
		{"anything but a number", `{"priority":[{"anything-but":123}]}`, true},
		{"anything but this number", `{"priority":[{"anything-but":300}]}`, false},
		{"anything but a list without it", `{"data":{"state":[{"anything-but":["stopped","overloaded"]}]}}`, true},
		{"anything but a list with it", `{"data":{"state":[{"anything-but":["stopped","running"]}]}}`, false},
		{"anything but another prefix", `{"data":{"state":[{"anything-but":{"prefix":"init"}}]}}`, true},
		{"anything but this prefix", `{"data":{"state":[{"anything-but":{"prefix":"run"}}]}}`, false},
		{"anything but, of an absent field", `{"data":{"absent":[{"anything-but":"x"}]}}`, false},
		{"anything but, of an object", `{"data":{"object":[{"anything-but":"x"}]}}`, false},
		{"exists", `{"subject":[{"exists":true}]}`, true},
		{"exists as an object", `{"data":{"object":[{"exists":true}]}}`, true},
		{"exists as null", `{"data":{"none":[{"exists":true}]}}`, true},
		{"exists not, but does", `{"subject":[{"exists":false}]}`, false},
		{"exists not", `{"data":{"absent":[{"exists":false}]}}`, true},
		{"exists not below an absent parent", `{"data":{"absent":{"deep":[{"exists":false}]}}}`, true},
		{"exists below an absent parent", `{"data":{"absent":{"deep":[{"exists":true}]}}}`, false},
		{"nested objects", `{"data":{"object":{"meta":{"kind":["pic"]}}}}`, true},
		{"nested objects, another value", `{"data":{"object":{"meta":{"kind":["film"]}}}}`, false},
		{"nested below a scalar", `{"data":{"state":{"deep":["x"]}}}`, false},
		{"a list with the value", `{"data":{"tags":["blue"]}}`, true},
		{"a list without the value", `{"data":{"tags":["green"]}}`, false},
		{"one object of a list", `{"data":{"parts":{"n":[2],"ok":[true]}}}`, true},
		{"no single object of a list", `{"data":{"parts":{"n":[1],"ok":[true]}}}`, false},
		{"a number as it is spelled", `{"priority":[300]}`, true},
		{"a number spelled otherwise", `{"data":{"size":[300]}}`, false},
		{"a number is no string", `{"priority":["300"]}`, false},
		{"true", `{"data":{"flag":[true]}}`, true},
		{"false", `{"data":{"flag":[false]}}`, false},
		{"null value", `{"data":{"none":[null]}}`, true},
		{"null is not absent", `{"data":{"absent":[null]}}`, false},
		{"null is not empty", `{"data":{"empty":[null]}}`, false},
		{"the empty string", `{"data":{"empty":[""]}}`, true},
		{"a numeric value", `{"data":{"size":[{"numeric":["=",300]}]}}`, true},
		{"a numeric range at its end", `{"data":{"count":[{"numeric":[">",0,"<=",5]}]}}`, true},
		{"a numeric range without its end", `{"data":{"count":[{"numeric":[">=",0,"<",5]}]}}`, false},
		{"numeric of a string", `{"data":{"state":[{"numeric":[">",0]}]}}`, false},
		{"an address in the network", `{"data":{"ip":[{"cidr":"10.0.0.0/24"}]}}`, true},
		{"an address outside", `{"data":{"ip":[{"cidr":"10.0.1.0/24"}]}}`, false},
		{"no address", `{"data":{"state":[{"cidr":"10.0.1.0/24"}]}}`, false},
		{"an extension the bus adds", `{"aliyuneventbusname":["oncegate-local"]}`, true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			tg := &target{}
			b := newBus(t, ebtest.Options{Rules: []ebtest.Rule{
				{Name: "r", Pattern: json.RawMessage(tc.pattern), Target: tg.invoke},
			}})
			want := ebtest.Unmatched
			if tc.want {
				want = ebtest.Acknowledged
			}
			out := wait(t, publish(t, b, []byte(sample)))
			if len(out) != 1 || out[0].Outcome != want || len(tg.got) > 1 || (len(tg.got) == 1) != tc.want {
				t.Errorf("outcomes %+v, %d deliveries, want %s", out, len(tg.got), want)
			}
		})
	}
}

func TestAPatternThatIsNotUnderstoodIsRefused(t *testing.T) {
	for _, pattern := range []string{
		`[]`, `"x"`, `{`, `{} {}`, `{"source":"acs.oss"}`, `{"source":[]}`, `{"source":[["a"]]}`, `{"source":[{}]}`,
		`{"source":[{"prefix":"a","suffix":"b"}]}`, `{"source":[{"prefix":1}]}`, `{"source":[{"wildcard":"*"}]}`,
		`{"source":[{"exists":"yes"}]}`, `{"source":[{"anything-but":[]}]}`, `{"source":[{"anything-but":[["a"]]}]}`,
		`{"source":[{"anything-but":{"suffix":"a"}}]}`, `{"n":[{"numeric":[]}]}`, `{"n":[{"numeric":[">"]}]}`,
		`{"n":[{"numeric":["!",1]}]}`, `{"n":[{"numeric":[">","1"]}]}`, `{"n":[{"cidr":"10.0.0.0"}]}`, `{"n":[{"cidr":1}]}`,
		`{"data":{"a":{"b":1}}}`,
	} {
		if _, err := ebtest.New(ebtest.Options{Rules: []ebtest.Rule{
			{Name: "r", Pattern: json.RawMessage(pattern), Target: (&target{}).invoke},
		}}); err == nil {
			t.Errorf("pattern %s was accepted", pattern)
		}
	}
}
