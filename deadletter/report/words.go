package report

import (
	"fmt"
	"time"
)

// words is a language of the pages. Decisions, codes, ends and commands stay as they are.
type words struct {
	tag string // of the lang attribute
	of  map[string]string
}

func wordsOf(lang string) (words, error) {
	switch lang {
	case "", "en":
		return words{"en", nil}, nil
	case "zh":
		return words{"zh-CN", chinese}, nil
	}
	return words{}, fmt.Errorf("language %q is not known; use en or zh", lang)
}

func (w words) say(s string) string {
	if t, ok := w.of[s]; ok {
		return t
	}
	return s
}

// span is a length of time in words.
func (w words) span(seconds int64) string {
	n, unit := seconds/60, "min"
	switch {
	case seconds >= 86400:
		n, unit = seconds/86400, "d"
	case seconds >= 3600:
		n, unit = seconds/3600, "h"
	}
	return fmt.Sprintf("%d %s", n, w.say(unit))
}

// left is how long a time is ahead.
func (w words) left(now, t time.Time) string {
	switch d := t.Sub(now); {
	case t.IsZero():
		return ""
	case d <= 0:
		return w.say("its time is over")
	case d < time.Minute:
		return w.say("in less than a minute")
	default:
		return fmt.Sprintf(w.say("in %s"), w.span(int64(d/time.Second)))
	}
}

var chinese = map[string]string{
	"min": "分钟", "h": "小时", "d": "天", "in %s": "%s后", "its time is over": "已过期", "in less than a minute": "不到一分钟",
	"Dead letters": "死信报告", "as of": "截至", "complete": "数据完整", "yes": "是", "no": "否", "Skip to content": "跳到正文", "Pages": "页面", "environment": "环境",
	"Overview": "总览", "Groups": "分组", "Batches": "批次", "Approvals": "审批", "Repairs": "修复证据", "Audit": "审计",
	"Unexplained": "未解释", "Letters": "死信", "open": "未结束", "ended": "已结束", "unreadable": "无法解析", "selected": "选中", "succeeded": "成功",
	"skipped": "跳过", "refused": "拒绝", "failed": "失败", "unresolved": "未决", "waiting": "待处理", "granted": "已批准", "rejected": "已驳回", "stale": "已失效",
	"every letter is explained, and all sums balance":              "每封死信都有解释，所有合计均平衡",
	"NOT in order: letters are unexplained or sums do not balance": "异常：有死信未解释，或合计不平衡",
	"expire within 24 h": "24 小时内过期", "open past their time": "已过期仍未结束", "Groups, those that expire soonest first": "分组（最先过期的在前）", "expires": "过期",
	"All in order": "一切正常", "Not in order": "存在异常", "unexplained": "未解释",
	"The sum": "平衡核对", "balances": "平衡", "does not balance": "不平衡", "Open, by decision": "未结束（按决定）", "Ended, by final status": "已结束（按最终状态）",
	"among all of these": "其中", "Expiring soonest": "最先过期的死信", "open letters, soonest first": "未结束的死信，最先过期的在前",
	"When letters first failed": "首次失败的时间分布", "one bar is": "每柱", "letters at the highest bar": "封（最高柱）", "busiest": "最忙时段",
	"The same as a table": "以表格显示", "from": "起始", "no letters": "没有死信", "Nothing here.": "无。",
	"Fingerprint": "指纹", "Code": "错误码", "Target": "目标", "Open": "未结束", "Ended": "已结束", "Last failed": "最近失败", "First failed": "首次失败", "Expires": "过期时间",
	"Event": "事件", "Source": "来源", "Decision": "决定", "Group": "分组", "All groups": "全部分组", "All batches": "全部批次", "repair": "修复",
	"class": "类别", "Next": "下一步", "Why": "原因", "Rule": "规则", "Count": "数量", "Business record": "业务记录", "Evidence": "证据", "Probe": "探针", "Result": "结果", "looked at": "查看数",
	"By": "操作者", "At": "时间", "went well": "通过", "did not": "未通过", "Sampled events": "抽样事件", "shows": "显示", "of": "/", "lists all": "可列出全部",
	"the latest": "最近", "in all": "共", "Life line": "生命线", "event made": "事件产生", "first failed": "首次失败", "last failed": "最近失败", "sightings": "见到次数", "generation": "代",
	"failed in a replay": "重放失败", "decision now": "当前决定", "Gates": "闸门", "Gate": "闸门", "pass": "通过", "refuse": "拒绝", "until": "至", "Says": "结论", "none": "无",
	"Gates are asked when a plan is made and again as each event goes.": "制定计划时及每个事件发出前都会再次检查闸门。",
	"record": "记录", "letter": "死信", "flow": "流程", "version": "版本", "original event": "原事件", "migration": "迁移", "batch": "批次", "by": "由",
	"Batch": "批次", "State": "状态", "Made": "创建", "Stages": "阶段", "Stage": "阶段", "Size": "大小", "Pre-check": "预检", "Started": "开始", "Observed": "观察结束",
	"Stop reason": "停止原因", "Verdict": "审批结论", "Reason": "理由", "high impact": "高影响", "low impact": "低影响", "digest": "摘要", "rate": "速率", "a second": "每秒",
	"Nothing may be sent now": "当前不可发送", "Items that have not gone well": "未成功的条目", "Item": "条目", "Letter": "死信", "Outcome": "结果", "Sent": "发出时间", "New group": "新分组",
	"never sent": "从未发出", "not sent yet": "尚未发出", "sent, and nobody knows": "已发出，结果未知", "All of these items": "全部此类条目", "Resume with": "继续执行",
	"Approvals of batches": "批次审批", "Impact": "影响", "good now": "当前有效", "nobody has said anything yet": "尚无人表态",
	"What probes have shown": "探针结果", "groups that need a repair and have no good evidence": "个分组需要修复且无有效证据", "groups with evidence": "个分组有证据",
	"What was done, newest first": "操作记录（最新在前）", "Action": "操作", "Actions": "操作统计", "Final": "最终状态", "rows": "行", "more follow": "后面还有", "Previous page": "上一页", "Next page": "下一页", "page": "第",
	"no timeline: nothing has failed": "无时间分布：没有失败", "Payloads are in no report.": "报告中不含任何载荷内容。", "the same numbers as JSON": "同样数字的 JSON", "a summary to paste": "可粘贴的摘要",
	"History": "历史", "Problem": "问题", "Frozen": "冻结", "Timeline": "时间线", "expired": "已过期", "ends": "结束", "back to": "返回", "letters": "封死信", "decided earlier, and not anew for this report": "沿用先前的决定，本次未重新判断", "groups": "个分组",
}
