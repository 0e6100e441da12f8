package report

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"path"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/net/html"

	"github.com/oncegate/oncegate/deadletter"
	"github.com/oncegate/oncegate/deadletter/letter"
	"github.com/oncegate/oncegate/deadletter/plan"
	"github.com/oncegate/oncegate/internal/messages"
)

func TestEveryLetterIsExplainedAndTheSumsBalance(t *testing.T) {
	_, r := write(t, busy(t).source(), nil)
	want := Letters{
		Total: 69, OpenSum: 49, EndedSum: 20, Unreadable: 1, Overdue: 1, ExpiringDay: 20, Balanced: true,
		Open:  map[deadletter.Decision]int64{"replay_candidate": 34, "repair_required": 10, "manual_review": 5, "skip_completed": 0},
		Ended: map[letter.FinalStatus]int64{"SUCCEEDED": 12, "MIGRATED": 2, "SKIPPED_COMPLETED": 3, "DISCARDED": 2, "EXPIRED": 1},
	}
	if diff := cmp.Diff(want, r.Letters); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(plan.Counts{Selected: 20, Succeeded: 6, Skipped: 1, Refused: 1, Failed: 2, Unresolved: 10}, r.Batches.Counts); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(Approvals{Waiting: 1, Granted: 2, Rejected: 1, Stale: 1}, r.Approvals); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(Repairs{Evidence: 3, OK: 1, Failed: 2, Groups: 1, Missing: 1}, r.Repairs); diff != "" {
		t.Error(diff)
	}
	if !r.OK || !r.Complete || r.GroupCount != 5 || r.Audit.Rows != 12 || r.Batches.Unbalanced != 0 {
		t.Errorf("got %+v", r)
	}
	for i := 1; i < len(r.Expiring); i++ {
		if r.Expiring[i].ExpiresAt.Before(r.Expiring[i-1].ExpiresAt) {
			t.Errorf("%d does not expire after the one before it", i)
		}
	}
	if r.Expiring[0].Code != "INVALID_SCHEMA" {
		t.Errorf("the soonest is %+v", r.Expiring[0])
	}
}

func TestALetterWithNeitherEndNorRuleIsUnexplained(t *testing.T) {
	for name, change := range map[string]func(*deadletter.Judgement){
		"no rule":          func(j *deadletter.Judgement) { j.Rule = messages.Text{} },
		"no decision":      func(j *deadletter.Judgement) { j.Decision = "" },
		"unknown decision": func(j *deadletter.Judgement) { j.Decision = "perhaps" },
		"unknown end":      func(j *deadletter.Judgement) { j.Letter.FinalStatus = "LOST" },
	} {
		t.Run(name, func(t *testing.T) {
			g := generated{letters: 10, groups: 2, change: func(i int, j *deadletter.Judgement) {
				if i == 4 {
					change(j)
				}
			}}
			f, r := write(t, g, nil)
			if r.OK || r.Letters.Unexplained != 1 || r.Letters.Balanced {
				t.Errorf("got %+v", r.Letters)
			}
			if !strings.Contains(text(f, "index.html"), "Not in order") || !strings.Contains(text(f, "summary.md"), "**Unexplained 1") {
				t.Error("the pages do not say so")
			}
		})
	}
}

func TestStoredDecisionsAreCountedAndTheirTimesMakeNoRules(t *testing.T) {
	g := generated{letters: 300, groups: 3, change: func(i int, j *deadletter.Judgement) {
		j.Rule = messages.Text{Format: "as decided at %d", Args: []any{i}}
		if i%2 == 0 {
			j.Rule = messages.Text{Format: "rule %d", Args: []any{i}}
		}
	}}
	f, r := write(t, g, nil)
	if r.Letters.Stored != 120 {
		t.Errorf("got %+v", r.Letters)
	}
	for name, g := range jsonOf(t, f)["groups"].(map[string]any) {
		if rules := g.(map[string]any)["rules"].(map[string]any); len(rules) > maxRules+2 || rules["as decided earlier"] == nil {
			t.Errorf("%s: %v", name, rules)
		}
	}
}

func TestABatchThatDoesNotBalanceIsFlagged(t *testing.T) {
	w := newWorld(t)
	w.plan("rp-1", plan.StateDone, letter.CodeTimeout, "fc:worker", []plan.Outcome{plan.OutcomeSucceeded, plan.OutcomeSucceeded}, []int64{3}, func(p *plan.Plan) {
		p.Count, p.Counts = 3, plan.Counts{} // one more than there are
	})
	w.plan("rp-2", plan.StateDone, letter.CodeTimeout, "fc:worker", []plan.Outcome{"lost"}, []int64{1}, nil)
	f, r := write(t, w.source(), nil)
	if r.OK || r.Batches.Unbalanced != 2 {
		t.Errorf("got %+v", r.Batches)
	}
	if !strings.Contains(text(f, "batches/rp-1.html"), "not as many as the plan froze") {
		t.Error("the page does not say why")
	}
}

func TestAReportDoesNotDependOnTheOrderOfLetters(t *testing.T) {
	var reports [2]*folder
	for i, backwards := range []bool{false, true} {
		reports[i], _ = write(t, generated{letters: 2000, groups: 30, backwards: backwards}, nil)
	}
	for name, body := range reports[0].files {
		if !bytes.Equal(body, reports[1].files[name]) {
			t.Fatalf("%s differs: %s", name, cmp.Diff(string(body), text(reports[1], name)))
		}
	}
}

func TestSamplesShrinkAsGroupsBecomeManyWhateverTheOrder(t *testing.T) {
	var seen [2][]byte
	for i, backwards := range []bool{false, true} {
		c := newCollector(asOf)
		g := generated{letters: 52_000, groups: 5000, backwards: backwards}
		if err := g.Letters(t.Context(), func(j deadletter.Judgement) error { c.add(j); return nil }); err != nil {
			t.Fatal(err)
		}
		var views []*Group
		for _, g := range c.sorted() {
			if n := len(g.sample.events); n != sampleBudget/5000 {
				t.Fatalf("%d letters of a group are kept", n)
			}
			views = append(views, g.view())
		}
		var err error
		if seen[i], err = json.Marshal(views); err != nil {
			t.Fatal(err)
		}
	}
	if !bytes.Equal(seen[0], seen[1]) {
		t.Error("the order of letters shows")
	}
}

// jsonOf reads report.json and puts groups and batches under their names.
func jsonOf(t *testing.T, f *folder) map[string]any {
	t.Helper()
	var r map[string]any
	if err := json.Unmarshal(f.files["report.json"], &r); err != nil {
		t.Fatal(err)
	}
	for list, id := range map[string]string{"groups": "fingerprint", "batch_list": "id"} {
		named := map[string]any{}
		for _, one := range r[list].([]any) {
			named[one.(map[string]any)[id].(string)] = one
		}
		r[list] = named
	}
	return r
}

func lookUp(r any, at string) (int64, error) {
	for _, part := range strings.Split(at, ".") {
		m, ok := r.(map[string]any)
		if !ok || m[part] == nil {
			return 0, fmt.Errorf("report.json has no %s", at)
		}
		r = m[part]
	}
	n, ok := r.(float64)
	if !ok {
		return 0, fmt.Errorf("%s is no number", at)
	}
	return int64(n), nil
}

func TestPagesAreWholeHTMLWhoseLinksResolveAndWhoseNumbersAreThoseOfReportJSON(t *testing.T) {
	for _, lang := range []string{"en", "zh"} {
		f, _ := write(t, busy(t).source(), func(o *Options) { o.Lang = lang })
		r := jsonOf(t, f)
		numbers := 0
		for name, body := range f.files {
			if !strings.HasSuffix(name, ".html") {
				continue
			}
			p := readPage(t, name, body)
			if p.lang == "" || p.h1 != 1 || p.mains != 1 || p.csp == "" || !p.viewport || p.navs == 0 {
				t.Errorf("%s: %+v", name, p)
			}
			for _, bad := range p.problems {
				t.Errorf("%s: %s", name, bad)
			}
			for _, link := range p.links {
				to, anchor, _ := strings.Cut(link, "#")
				if strings.Contains(to, ":") || strings.HasPrefix(to, "/") {
					t.Errorf("%s leads outside: %s", name, link)
				}
				if to == "" && !p.ids[anchor] {
					t.Errorf("%s has no anchor %s", name, link)
				}
				if _, ok := f.files[path.Join(path.Dir(name), to)]; to != "" && !ok {
					t.Errorf("%s leads nowhere: %s", name, link)
				}
			}
			for at, n := range p.numbers {
				numbers++
				if want, err := lookUp(r, at); err != nil || strconv.FormatInt(want, 10) != n {
					t.Errorf("%s: %s is %s, not %d (%v)", name, at, n, want, err)
				}
			}
		}
		if numbers < 100 {
			t.Errorf("only %d numbers were compared", numbers)
		}
	}
}

type pageFacts struct {
	lang, csp       string
	h1, mains, navs int
	viewport        bool
	links           []string
	ids             map[string]bool
	numbers         map[string]string
	problems        []string
}

var voids = map[string]bool{"meta": true, "br": true, "img": true, "link": true, "input": true, "hr": true}

func readPage(t *testing.T, name string, body []byte) pageFacts {
	t.Helper()
	p := pageFacts{ids: map[string]bool{}, numbers: map[string]string{}}
	problem := func(format string, args ...any) { p.problems = append(p.problems, fmt.Sprintf(format, args...)) }
	z := html.NewTokenizer(bytes.NewReader(body))
	var open []string
	for {
		kind := z.Next()
		if kind == html.ErrorToken {
			break
		}
		token := z.Token()
		switch kind {
		case html.EndTagToken:
			if len(open) == 0 || open[len(open)-1] != token.Data {
				problem("</%s> closes %v", token.Data, open)
				return p
			}
			open = open[:len(open)-1]
		case html.StartTagToken, html.SelfClosingTagToken:
			if kind == html.StartTagToken && !voids[token.Data] {
				open = append(open, token.Data)
			}
			p.tag(token, problem)
		}
	}
	if len(open) != 0 {
		problem("left open: %v", open)
	}
	if _, err := html.Parse(bytes.NewReader(body)); err != nil {
		problem("%v", err)
	}
	if len(body) > maxPage {
		problem("%d bytes", len(body))
	}
	return p
}

func (p *pageFacts) tag(token html.Token, problem func(string, ...any)) {
	attr := map[string]string{}
	for _, a := range token.Attr {
		attr[a.Key] = a.Val
		if a.Key == "style" || strings.HasPrefix(a.Key, "on") {
			problem("attribute %s", a.Key)
		}
	}
	if id, ok := attr["id"]; ok {
		if p.ids[id] && id != "hatch" {
			problem("id %s twice", id)
		}
		p.ids[id] = true
	}
	switch token.Data {
	case "html":
		p.lang = attr["lang"]
	case "h1":
		p.h1++
	case "main":
		p.mains++
	case "nav":
		p.navs++
	case "script", "img", "iframe", "object", "embed", "link", "form", "base":
		problem("<%s>", token.Data)
	case "meta":
		switch {
		case attr["http-equiv"] == "Content-Security-Policy":
			p.csp = attr["content"]
		case attr["name"] == "viewport":
			p.viewport = true
		case attr["http-equiv"] != "":
			problem("meta %s", attr["http-equiv"])
		}
	case "a":
		p.links = append(p.links, attr["href"])
	case "data":
		p.numbers[strings.TrimPrefix(attr["class"], "p:")] = attr["value"]
	case "svg":
		if attr["role"] != "img" && attr["aria-hidden"] != "true" {
			problem("a drawing without a role")
		}
	}
}

func TestListsAreCutIntoPagesOfFiveHundredRows(t *testing.T) {
	w := newWorld(t)
	outcomes := make([]plan.Outcome, 1201)
	for i := range outcomes {
		outcomes[i] = plan.OutcomeUnresolved
	}
	w.plan("rp-1", plan.StateStopped, letter.CodeTimeout, "fc:worker", outcomes, []int64{1201}, nil)
	f, _ := write(t, w.source(), nil)
	rows := regexp.MustCompile(`<tr><td class="num">`)
	for name, want := range map[string]int{"batches/rp-1.html": 50, "batches/rp-1-items.html": 500, "batches/rp-1-items-2.html": 500, "batches/rp-1-items-3.html": 201} {
		if n := len(rows.FindAllString(text(f, name), -1)); n != want {
			t.Errorf("%s has %d rows, not %d", name, n, want)
		}
	}
	for _, link := range []string{"rp-1-items.html", "rp-1-items-2.html", "rp-1-items-3.html"} {
		if !strings.Contains(text(f, "batches/rp-1.html"), `href="`+link+`"`) {
			t.Errorf("the batch's page has no index entry %s", link)
		}
	}
	f, _ = write(t, generated{letters: 1500, groups: 1200}, nil)
	if index := text(f, "index.html"); !strings.Contains(index, `href="groups-3.html"`) || strings.Contains(index, "groups-4") {
		t.Error("the overview has no index of the groups' pages")
	}
}

func TestTheSummaryHasTheNumbersAndNoEvent(t *testing.T) {
	f, _ := write(t, busy(t).source(), nil)
	md := text(f, "summary.md")
	for _, want := range []string{
		"# Dead letters: `prod`", "**Unexplained 0 — every letter is explained, and all sums balance**", "Letters: 69 = 49 open + 20 ended", "`replay_candidate`: 34",
		"Batches: 5; selected 20 = 6 succeeded + 1 skipped + 1 refused + 2 failed + 10 unresolved", "`3edcecc95052` `TIMEOUT` → `fc:worker`: 34 open, 15 ended",
	} {
		if !strings.Contains(md, want) {
			t.Errorf("no %q in\n%s", want, md)
		}
	}
	if strings.Contains(md, "evt-") {
		t.Error("the summary names events")
	}
}

func TestGatesAreShownOfOpenLettersAlone(t *testing.T) {
	f, _ := write(t, busy(t).source(), nil)
	fp := letter.Fingerprint(letter.CodeAccessDenied, "model:qwen-max") // 8 are open, 2 have ended
	page := text(f, "groups/"+fp+".html")
	if !strings.Contains(page, "nobody has approved the plan") || strings.Count(page, "<article") != 10 || strings.Count(page, "<caption>Gates") != strings.Count(page, "decision now") {
		t.Error("gate tables and open letters are not as many")
	}
	timeout := text(f, "groups/"+letter.Fingerprint(letter.CodeTimeout, "fc:worker")+".html")
	if !strings.Contains(timeout, "shows 20 of <data value=\"49\"") || !strings.Contains(timeout, "oncegate dlq events 3edcecc95052") {
		t.Error("the page does not say how many it shows, and what lists all")
	}
	f, _ = write(t, busy(t).source(), func(o *Options) { o.Gates = nil })
	if strings.Contains(text(f, "groups/"+fp+".html"), "Gates") {
		t.Error("gates are shown that nobody asked")
	}
}

// logged is a source with audit rows, the newest first or last.
type logged struct {
	generated
	rows      int
	backwards bool
}

func (l logged) Audit(_ context.Context, each func(deadletter.Audit) error) error {
	for i := range l.rows {
		if l.backwards {
			i = l.rows - 1 - i
		}
		a := deadletter.Audit{ID: fmt.Sprint(i), At: asOf.Add(-time.Duration(i) * time.Second), Action: deadletter.ActionReplay, Reason: fmt.Sprintf("row-%d.", i)}
		if err := each(a); err != nil {
			return err
		}
	}
	return nil
}

func TestTheLatestAuditRowsAreShownNewestFirst(t *testing.T) {
	for _, backwards := range []bool{false, true} {
		f, r := write(t, logged{rows: maxAudit + 100, backwards: backwards}, nil)
		if r.Audit.Rows != maxAudit+100 || r.Audit.Shown != maxAudit || r.Audit.ByAction["replay"] != maxAudit+100 {
			t.Errorf("got %+v", r.Audit)
		}
		first := text(f, "audit.html")
		if i, j := strings.Index(first, "row-0."), strings.Index(first, "row-1."); i < 0 || j < i {
			t.Error("the newest is not first")
		}
		if last := text(f, "audit-5.html"); !strings.Contains(last, fmt.Sprintf("row-%d.", maxAudit-1)) || strings.Contains(last, fmt.Sprintf("row-%d.", maxAudit)) {
			t.Error("the last page ends with another row")
		}
	}
}

func TestAnUnknownLanguageIsRefused(t *testing.T) {
	if _, err := Write(t.Context(), generated{}, Options{Lang: "tlh", Now: asOf}); err == nil {
		t.Error("it was taken")
	}
}

var said = regexp.MustCompile(`\bt "([^"]+)"|\.say\("([^"]+)"\)|[( ]t\("([^"]+)"\)`)

func TestEveryWordOfThePagesHasItsChinese(t *testing.T) {
	entries, err := templates.ReadDir("templates")
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		raw, err := templates.ReadFile("templates/" + e.Name())
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range said.FindAllStringSubmatch(string(raw), -1) {
			if chinese[m[1]] == "" {
				t.Errorf("%s: %q", e.Name(), m[1])
			}
		}
	}
}
