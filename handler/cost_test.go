package handler_test

import (
	"bufio"
	"fmt"
	"os"
	"strings"
	"testing"
)

// bill is what one delivery costs in the units that the services charge for.
type bill struct{ writeCU, readCU, puts, gets, stored int }

// unitCU is the size that one capacity unit of Tablestore pays for, in bytes.
const unitCU = 4096

func unitsOf(size int) int { return max(1, (size+unitCU-1)/unitCU) }

// add counts calls of one kind. Every write of oncegate carries an existence
// condition, which Tablestore charges one read unit for; a failed one costs a unit
// of each. A body is a little larger than what is charged, so this never says too
// little.
func (b *bill) add(kind string, calls, sent, received int) {
	switch {
	case kind == "tablestore PutRow", kind == "tablestore UpdateRow":
		b.writeCU += calls * unitsOf(sent/calls)
		b.readCU += calls
	case kind == "tablestore GetRow":
		b.readCU += calls * unitsOf(received/calls)
	case strings.HasPrefix(kind, "oss PutObject"), kind == "oss ListObjects":
		b.puts += calls // listing is charged as a put is
		b.stored += sent
	default:
		b.gets += calls
	}
}

// bills reads the golden of calls and bytes.
func bills(t *testing.T) map[string]bill {
	t.Helper()
	file, err := os.Open("testdata/traffic.golden")
	must(t, err)
	defer file.Close()
	all, road := map[string]bill{}, ""
	for lines := bufio.NewScanner(file); lines.Scan(); {
		line := lines.Text()
		if !strings.HasPrefix(line, " ") {
			road = line
			all[road] = bill{}
			continue
		}
		if strings.TrimSpace(line) == "nothing" {
			continue
		}
		const name = 2 + 32
		var calls, sent, received int
		_, err := fmt.Sscanf(line[name:], "%d calls %d sent %d received", &calls, &sent, &received)
		must(t, err)
		b := all[road]
		b.add(strings.TrimSpace(line[:name]), calls, sent, received)
		all[road] = b
	}
	return all
}

// TestTheCostTablesAreTheGoldensSums keeps the tables of docs/COST.md and its
// Chinese twin at what the golden counts say:
//
//	go test ./handler -run 'TestEachRoadCosts|TestTheCostTables' -update
func TestTheCostTablesAreTheGoldensSums(t *testing.T) {
	of := bills(t)
	for file, names := range map[string]map[string]string{
		"../docs/COST.md": {"": "| a million deliveries | write CU | read CU | OSS writes | OSS reads |\n"},
		"../docs/COST.zh-CN.md": {
			"": "| 一百万次投递 | 写 CU | 读 CU | OSS 写请求 | OSS 读请求 |\n", "fresh": "新事件", "fresh with one effect": "新事件，带一个副作用",
			"finished duplicate, warm": "重复事件，本实例已知", "finished duplicate, cold": "重复事件，本实例未知",
			"finished duplicate, said to be a retry": "重复事件，平台标明为重试", "in progress": "正在由另一次投递处理",
			"a run that fails and comes again": "执行失败，等待重投", "the run after it": "失败之后的那一次执行", "a run that fails for good": "执行最终失败，写入死信",
			"conflict": "同键不同输入（冲突）", "no event": "无法解析的消息", "replay of one that failed for good": "重放一条最终失败的死信",
		},
	} {
		var table strings.Builder
		table.WriteString(names[""] + "|---|---:|---:|---:|---:|\n")
		for _, road := range roads {
			if strings.HasPrefix(road.name, "batch") {
				continue // as many fresh ones
			}
			name := road.name
			if translated, ok := names[name]; ok {
				name = translated
			} else if len(names) > 1 {
				t.Errorf("%s: %q has no name", file, name)
			}
			b := of[road.name]
			fmt.Fprintf(&table, "| %s | %s | %s | %s | %s |\n", name, millions(b.writeCU), millions(b.readCU), millions(b.puts), millions(b.gets))
		}
		checkBlock(t, file, table.String())
	}
}

func millions(n int) string {
	if n == 0 {
		return "0"
	}
	return fmt.Sprintf("%d,000,000", n)
}

// checkBlock compares what stands between the marks of a document, or writes it.
func checkBlock(t *testing.T, file, want string) {
	t.Helper()
	const begin, end = "<!-- computed -->\n", "<!-- end -->\n"
	raw, err := os.ReadFile(file)
	must(t, err)
	head, rest, ok := strings.Cut(string(raw), begin)
	got, tail, closed := strings.Cut(rest, end)
	if !ok || !closed {
		t.Fatalf("%s has no computed block", file)
	}
	if *update {
		must(t, os.WriteFile(file, []byte(head+begin+want+end+tail), 0o644))
		return
	}
	if got != want {
		t.Errorf("%s says\n%s\nthe golden counts say\n%s", file, got, want)
	}
}

// TestTheFormulaIsTheGoldens holds the terms of the documents' formula and the
// table that follows from it.
func TestTheFormulaIsTheGoldens(t *testing.T) {
	of := bills(t)
	fresh, effect, cold, again, failed := of["fresh"], of["fresh with one effect"], of["finished duplicate, cold"],
		of["finished duplicate, said to be a retry"], of["a run that fails and comes again"]
	says := []string{
		fmt.Sprintf("F = %d p_write + %d p_read + %d p_put\n", fresh.writeCU, fresh.readCU, fresh.puts),
		fmt.Sprintf("E = %d p_write + %d p_read ", effect.writeCU-fresh.writeCU, effect.readCU-fresh.readCU),
		fmt.Sprintf("X = %d p_write + %d p_read + p_put ", failed.writeCU, failed.readCU),
		fmt.Sprintf("p_write + %d p_read", cold.readCU),
	}
	for _, b := range []bill{fresh, effect, {effect.writeCU + cold.writeCU, effect.readCU + cold.readCU, effect.puts, 0, 0}} {
		says = append(says, fmt.Sprintf("| %s | %s | %s |\n", millions(b.writeCU), millions(b.readCU), millions(b.puts)))
	}
	if cold.writeCU != 1 || again != (bill{readCU: 1}) || failed.puts != 1 || effect.puts != fresh.puts || of["finished duplicate, warm"] != (bill{}) {
		t.Errorf("the formula's other terms no longer hold: %+v", of)
	}
	for _, file := range []string{"../docs/COST.md", "../docs/COST.zh-CN.md"} {
		raw, err := os.ReadFile(file)
		must(t, err)
		for _, one := range says {
			if !strings.Contains(string(raw), one) {
				t.Errorf("%s does not say %q", file, one)
			}
		}
	}
}

// TestABatchCostsWhatItsMembersCost holds what the document says of batches.
func TestABatchCostsWhatItsMembersCost(t *testing.T) {
	of := bills(t)
	ten, one := of["batch of 10 fresh ones"], of["fresh"]
	if one == (bill{}) || ten != (bill{10 * one.writeCU, 10 * one.readCU, 10 * one.puts, 10 * one.gets, 10 * one.stored}) {
		t.Errorf("ten members cost %+v, one event %+v", ten, one)
	}
}

// TestStoredObjectsAreTheirContentAndLittleMore holds the sizes that the documents
// give for storage.
func TestStoredObjectsAreTheirContentAndLittleMore(t *testing.T) {
	for _, file := range []string{"../docs/COST.md", "../docs/COST.zh-CN.md"} {
		raw, err := os.ReadFile(file)
		must(t, err)
		for _, says := range []string{"250", "280"} {
			if !strings.Contains(string(raw), says) {
				t.Errorf("%s does not give %s bytes", file, says)
			}
		}
	}
	event := order("e1", "17", 5)
	golden, err := os.ReadFile("testdata/traffic.golden")
	must(t, err)
	var input, output int
	for line := range strings.Lines(string(golden)) {
		for name, to := range map[string]*int{"input.json": &input, "output.json": &output} {
			if _, rest, ok := strings.Cut(line, "oss PutObject "+name); ok && *to == 0 {
				var calls int
				_, err := fmt.Sscanf(rest, "%d calls %d sent", &calls, to)
				must(t, err)
			}
		}
	}
	if input == 0 || input-len(event) > 250 || output > 280 {
		t.Errorf("input.json has %d bytes for an event of %d, output.json %d", input, len(event), output)
	}
}
