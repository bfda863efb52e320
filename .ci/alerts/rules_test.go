// Package alerts tests the alert rules of examples/alerts with Prometheus' own
// query engine. It has a module of its own, so that its dependencies stay out of
// the product's.
package alerts

import (
	"fmt"
	"os"
	"path/filepath"
	"sort"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/promql/promqltest"
	"github.com/prometheus/prometheus/storage"
	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v2"
)

const folder = "../../examples/alerts"

type rule struct {
	Alert       string            `yaml:"alert"`
	Expr        string            `yaml:"expr"`
	For         string            `yaml:"for"`
	Labels      map[string]string `yaml:"labels"`
	Annotations map[string]string `yaml:"annotations"`
}

type ruleFile struct {
	Groups []struct {
		Name  string `yaml:"name"`
		Rules []rule `yaml:"rules"`
	} `yaml:"groups"`
}

// testFile is promtool's form of unit tests, as far as ours use it.
type testFile struct {
	RuleFiles []string `yaml:"rule_files"`
	Interval  string   `yaml:"evaluation_interval"`
	Tests     []struct {
		Name     string `yaml:"name"`
		Interval string `yaml:"interval"`
		Series   []struct {
			Series string `yaml:"series"`
			Values string `yaml:"values"`
		} `yaml:"input_series"`
		Alerts []struct {
			At    string  `yaml:"eval_time"`
			Alert string  `yaml:"alertname"`
			Want  []alert `yaml:"exp_alerts"`
		} `yaml:"alert_rule_test"`
	} `yaml:"tests"`
}

type alert struct {
	Labels      map[string]string `yaml:"exp_labels"`
	Annotations map[string]string `yaml:"exp_annotations"`
}

func read(t *testing.T, name string, into any) {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join(folder, name))
	require.NoError(t, err)
	require.NoError(t, yaml.UnmarshalStrict(raw, into))
}

func span(t *testing.T, text string) time.Duration {
	t.Helper()
	if text == "" {
		return 0
	}
	d, err := model.ParseDuration(text)
	require.NoError(t, err)
	return time.Duration(d)
}

func TestRules(t *testing.T) {
	t.Parallel()
	var tests testFile
	read(t, "airlock.rules.test", &tests)
	rules := map[string]rule{}
	for _, name := range tests.RuleFiles {
		var f ruleFile
		read(t, name, &f)
		for _, g := range f.Groups {
			for _, r := range g.Rules {
				require.NotContains(t, rules, r.Alert)
				rules[r.Alert] = r
			}
		}
	}
	every := span(t, tests.Interval)
	fired := map[string]bool{}
	for _, c := range tests.Tests {
		t.Run(c.Name, func(t *testing.T) {
			var load strings.Builder
			fmt.Fprintf(&load, "load %s\n", c.Interval)
			for _, s := range c.Series {
				fmt.Fprintf(&load, "  %s %s\n", s.Series, s.Values)
			}
			series := promqltest.LoadedStorage(t, load.String())
			defer series.Close()
			engine := promqltest.NewTestEngine(t, false, 0, promqltest.DefaultMaxSamplesPerQuery)
			for _, a := range c.Alerts {
				r, known := rules[a.Alert]
				require.True(t, known, "there is no rule %s", a.Alert)
				got := firing(t, engine, series, r, every, span(t, a.At))
				want := a.Want
				if want == nil {
					want = []alert{}
				}
				require.Equal(t, want, got, "%s at %s", a.Alert, a.At)
				fired[a.Alert] = fired[a.Alert] || len(got) > 0
			}
		})
	}
	for name := range rules {
		if name != "AirlockReplayPublishedTwice" { // a constraint keeps its metric at 0
			require.True(t, fired[name], "no test makes %s fire", name)
		}
	}
}

// firing evaluates a rule at every interval up to an instant, as Prometheus does,
// and gives the alerts that fire then.
func firing(t *testing.T, engine *promql.Engine, series storage.Queryable, r rule, every, at time.Duration) []alert {
	t.Helper()
	since := map[string]time.Duration{}
	out := []alert{}
	for now := time.Duration(0); now <= at; now += every {
		q, err := engine.NewInstantQuery(t.Context(), series, nil, r.Expr, time.Unix(0, 0).Add(now))
		require.NoError(t, err)
		res := q.Exec(t.Context())
		require.NoError(t, res.Err)
		vector, err := res.Vector()
		require.NoError(t, err)
		active := map[string]time.Duration{}
		out = out[:0]
		for _, sample := range vector {
			key := sample.Metric.String()
			began, pending := since[key]
			if !pending {
				began = now
			}
			active[key] = began
			if now-began >= span(t, r.For) {
				out = append(out, made(t, r, sample.Metric))
			}
		}
		since = active
		q.Close()
	}
	sort.Slice(out, func(i, j int) bool { return fmt.Sprint(out[i]) < fmt.Sprint(out[j]) })
	return out
}

func made(t *testing.T, r rule, of labels.Labels) alert {
	t.Helper()
	a := alert{Labels: map[string]string{}, Annotations: map[string]string{}}
	of.Range(func(l labels.Label) {
		if l.Name != labels.MetricName {
			a.Labels[l.Name] = l.Value
		}
	})
	for k, v := range r.Labels {
		a.Labels[k] = v
	}
	for k, v := range r.Annotations {
		of.Range(func(l labels.Label) { v = strings.ReplaceAll(v, "{{ $labels."+l.Name+" }}", l.Value) })
		require.NotContains(t, v, "{{", "the annotation uses a label that the alert has not")
		a.Annotations[k] = v
	}
	return a
}

// TestMetricsExist holds the rules against docs/metrics.md: a metric that is
// renamed would silence a rule without a word.
func TestMetricsExist(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../docs/metrics.md")
	require.NoError(t, err)
	var f ruleFile
	read(t, "airlock.rules", &f)
	for _, g := range f.Groups {
		for _, r := range g.Rules {
			expr, err := parser.NewParser(parser.Options{}).ParseExpr(r.Expr)
			require.NoError(t, err)
			parser.Inspect(expr, func(n parser.Node, _ []parser.Node) error {
				if v, ok := n.(*parser.VectorSelector); ok {
					require.Contains(t, string(page), "| `"+v.Name+"` |", r.Alert)
				}
				return nil
			})
		}
	}
}
