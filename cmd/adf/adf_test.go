package adf_test

import (
	"cmp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/airlock-dag/airlock/cmd/adf"
	"github.com/airlock-dag/airlock/cmd/app"
	"github.com/airlock-dag/airlock/dag"
	"github.com/airlock-dag/airlock/dag/bundle"
	"github.com/airlock-dag/airlock/dag/load"
)

const pipeline = `{
  "name": "Load Orders",
  "properties": {
    "description": "nightly",
    "activities": [
      {
        "name": "Copy Orders",
        "type": "Copy",
        "policy": {
          "timeout": "02:00:00",
          "retry": 3,
          "retryIntervalInSeconds": 60,
          "secureInput": false,
          "secureOutput": true
        },
        "typeProperties": {
          "source": {"type": "DelimitedTextSource", "storeSettings": {"type": "AzureBlobStorageReadSettings", "wildcardFolderPath": "inbox", "wildcardFileName": "orders-*.csv"}},
          "sink": {"type": "AzureSqlSink", "writeBehavior": "upsert", "upsertSettings": {"useTempDB": true, "keys": ["order_id"]}},
          "enableSkipIncompatibleRow": true,
          "redirectIncompatibleRowSettings": {"linkedServiceName": {"referenceName": "blob", "type": "LinkedServiceReference"}, "path": "bad-records"},
          "translator": {"type": "TabularTranslator", "mappings": [
            {"source": {"name": "OrderId", "type": "Int64"}, "sink": {"name": "order_id"}},
            {"source": {"name": "amount"}, "sink": {"name": "amount", "type": "Decimal", "precision": 12, "scale": 2}},
            {"source": {"name": "modified", "type": "DateTime"}, "sink": {"name": "modified"}}]}
        },
        "inputs": [{"referenceName": "OrdersCsv", "type": "DatasetReference"}],
        "outputs": [{"referenceName": "SilverOrders", "type": "DatasetReference"}]
      },
      {
        "name": "Totals", "type": "SqlServerStoredProcedure",
        "dependsOn": [{"activity": "Copy Orders", "dependencyConditions": ["Completed"]}],
        "policy": {"timeout": "1.06:30:05"},
        "linkedServiceName": {"referenceName": "Warehouse", "type": "LinkedServiceReference"},
        "typeProperties": {"storedProcedureName": "[dbo].[totals]", "storedProcedureParameters": {"day": {"value": "2026-03-01", "type": "String"}}}
      }
    ],
    "concurrency": 2,
    "parameters": {"day": {"type": "string", "defaultValue": "today"}}
  }
}`

// lineOf is the line of the pipeline in which a text stands first.
func lineOf(text string) int {
	return strings.Count(pipeline[:strings.Index(pipeline, text)], "\n") + 1
}

func loaded(t *testing.T, text string) *dag.DAG {
	t.Helper()
	got := load.Files([]bundle.File{{Path: "orders.yml", Data: []byte(text)}}, load.Options{Specs: app.Operators().Specs(), Now: time.Now})
	for _, p := range got.Problems {
		require.NotEqual(t, dag.SeverityError, p.Severity, "%s\n%s", p, text)
	}
	require.Len(t, got.DAGs, 1, text)
	return got.DAGs[0]
}

func TestPolicyHasTheSameMeaning(t *testing.T) {
	t.Parallel()
	text, problems, err := adf.Convert("orders.json", []byte(pipeline), adf.Options{})
	require.NoError(t, err)
	d := loaded(t, text)
	require.Equal(t, "load_orders", d.ID)
	require.Equal(t, 2, d.MaxActiveRuns)
	one := d.Task("copy_orders")
	require.Equal(t, "merge", one.Operator)
	require.Equal(t, "Copy Orders", one.DisplayName)
	require.Equal(t, 2*time.Hour, one.ExecutionTimeout)
	require.Equal(t, 3, one.Retry.Retries)
	require.Equal(t, time.Minute, one.Retry.Delay)
	require.False(t, one.DoXComPush, "secureOutput")
	require.Equal(t, map[string]any{"max_ratio": 1.0}, one.Args["bad_rows"])
	require.Equal(t, []any{"order_id"}, one.Args["key"])
	require.Equal(t, "inbox/orders-*.csv", one.Args["source"].(map[string]any)["file"])
	require.Equal(t, []any{
		[]any{"order_id", map[string]any{"type": "bigint", "from": "OrderId"}},
		[]any{"amount", map[string]any{"type": "decimal(12,2)"}},
		[]any{"modified", map[string]any{"type": "timestamp", "timezone": "UTC"}},
	}, one.Args["columns"])
	two := d.Task("totals")
	require.Equal(t, 30*time.Hour+30*time.Minute+5*time.Second, two.ExecutionTimeout)
	require.Equal(t, 0, two.Retry.Retries, "Data Factory's default")
	require.Equal(t, 30*time.Second, two.Retry.Delay)
	require.Equal(t, dag.AllDone, two.TriggerRule)
	require.Equal(t, "CALL dbo.totals('2026-03-01')", two.Args["sql"])
	require.Len(t, problems, 2, "%v", problems)
	require.Contains(t, problems[0].Message, "airlock_dead_letter_row")
	require.Equal(t, lineOf(`"redirectIncompatibleRowSettings"`), problems[0].Line)
	require.Contains(t, problems[1].Message, `which table the dataset "SilverOrders" is`)
	require.Equal(t, lineOf(`"SilverOrders"`), problems[1].Line)
}

func TestDefaultsOfAPolicyAreDataFactorys(t *testing.T) {
	t.Parallel()
	text, _, err := adf.Convert("x.json", []byte(strings.Replace(pipeline, `"enableSkipIncompatibleRow": true`, `"enableSkipIncompatibleRow": false`, 1)), adf.Options{})
	require.NoError(t, err)
	require.Equal(t, map[string]any{"max": 0.0}, loaded(t, text).Task("copy_orders").Args["bad_rows"])
	noPolicy := pipeline[:strings.Index(pipeline, `        "policy": {
          "timeout"`)] + pipeline[strings.Index(pipeline, `        "typeProperties": {
          "source"`):]
	text, _, err = adf.Convert("x.json", []byte(noPolicy), adf.Options{})
	require.NoError(t, err)
	require.Equal(t, 12*time.Hour, loaded(t, text).Task("copy_orders").ExecutionTimeout)
}

func TestWrongSpellingsAreNamedWithTheirLine(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		from, to string
		at       string // what stands in the problem's line; from when empty
		words    []string
	}{
		{`"retryIntervalInSeconds"`, `"retryIntervalInSecond"`, "", []string{"retryIntervalInSecond", `did you mean "retryIntervalInSeconds"?`}},
		{`"timeout": "02:00:00"`, `"timeOut": "02:00:00"`, "", []string{`did you mean "timeout"?`}},
		{`"02:00:00"`, `"2h"`, "", []string{"no time span", "hh:mm:ss"}},
		{`"02:00:00"`, `"36:00:00"`, "", []string{"36 hours", "d.hh:mm:ss"}},
		{`"02:00:00"`, `"00:00:00"`, "", []string{"no time at all"}},
		{`"retry": 3`, `"retry": "three"`, "", []string{"retry", "whole number"}},
		{`"retry": 3`, `"retry": {"value": "@pipeline().parameters.n", "type": "Expression"}`, "", []string{"expression"}},
		{`"retryIntervalInSeconds": 60`, `"retryIntervalInSeconds": 5`, "", []string{"30 to 86400"}},
		{`"secureOutput": true`, `"secureOutput": "maybe"`, "", []string{"true or false"}},
		{`"enableSkipIncompatibleRow"`, `"enableSkipIncompatibleRows"`, "", []string{`did you mean "enableSkipIncompatibleRow"?`}},
		{`"path": "bad-records"`, `"folder": "bad-records"`, "", []string{`no "folder"`, "linkedServiceName, path"}},
		{`"dependencyConditions": ["Completed"]`, `"dependencyConditions": ["Finished"]`, "", []string{"Finished", "Succeeded"}},
		{`"activity": "Copy Orders"`, `"activity": "Copy Order"`, "", []string{"no activity"}},
		{`"type": "SqlServerStoredProcedure"`, `"type": "DatabricksNotebook"`, "", []string{"DatabricksNotebook", "--partial"}},
		{`"upsertSettings": {"useTempDB": true, "keys": ["order_id"]}`, `"x": 1`, `"name": "Copy Orders"`, []string{"--key"}},
		{`"translator"`, `"translatr"`, "", []string{`did you mean "translator"?`}},
	} {
		require.Contains(t, pipeline, c.from)
		text, problems, err := adf.Convert("p.json", []byte(strings.Replace(pipeline, c.from, c.to, 1)), adf.Options{})
		require.NoError(t, err)
		require.Empty(t, text, "%s", c.to)
		found := false
		for _, p := range problems {
			all := p.Line == lineOf(cmp.Or(c.at, c.from)) && p.Severity == dag.SeverityError
			for _, w := range c.words {
				all = all && strings.Contains(p.Message, w)
			}
			found = found || all
		}
		require.True(t, found, "%s: %v", c.to, problems)
	}
}

func TestWhatIsWarnedOfIsConverted(t *testing.T) {
	t.Parallel()
	wrapped := strings.Replace(strings.Replace(pipeline, `"enableSkipIncompatibleRow": true,`, `"faultTolerance": {"enableSkipIncompatibleRow": true,`, 1),
		`"path": "bad-records"},`, `"path": "bad-records"}},`, 1)
	text, problems, err := adf.Convert("p.json", []byte(wrapped), adf.Options{})
	require.NoError(t, err)
	require.Equal(t, map[string]any{"max_ratio": 1.0}, loaded(t, text).Task("copy_orders").Args["bad_rows"])
	require.Contains(t, problems[0].Message, "no faultTolerance")
	text, problems, err = adf.Convert("p.json", []byte(strings.Replace(pipeline, `"secureInput": false`, `"secureInput": true`, 1)), adf.Options{})
	require.NoError(t, err)
	loaded(t, text)
	require.Contains(t, problems[0].Message, "secureInput")
	text, problems, err = adf.Convert("p.json", []byte(strings.Replace(pipeline, `"type": "SqlServerStoredProcedure"`, `"type": "DatabricksNotebook"`, 1)), adf.Options{Partial: true})
	require.NoError(t, err)
	require.Equal(t, "empty", loaded(t, text).Task("totals").Operator)
	require.NotEmpty(t, problems)
}

func TestTemplatesWithDatasets(t *testing.T) {
	t.Parallel()
	template := `{"resources": [
  {"name": "[concat(parameters('factoryName'), '/Orders')]", "type": "Microsoft.DataFactory/factories/datasets",
   "properties": {"linkedServiceName": {"referenceName": "Lake"}, "type": "DelimitedText",
    "typeProperties": {"location": {"type": "AzureBlobFSLocation", "folderPath": "in", "fileName": "o.csv"}, "columnDelimiter": ";", "firstRowAsHeader": true, "nullValue": "NULL", "encodingName": "UTF-8"}}},
  {"name": "[concat(parameters('factoryName'), '/Target')]", "type": "Microsoft.DataFactory/factories/datasets",
   "properties": {"linkedServiceName": {"referenceName": "Warehouse"}, "type": "AzureSqlTable", "typeProperties": {"schema": "shop", "table": "orders"}}},
  {"name": "[concat(parameters('factoryName'), '/Nightly')]", "type": "Microsoft.DataFactory/factories/pipelines",
   "properties": {"activities": [{"name": "c", "type": "Copy", "inputs": [{"referenceName": "Orders"}], "outputs": [{"referenceName": "Target"}],
     "typeProperties": {"source": {"type": "DelimitedTextSource"}, "sink": {"type": "SqlSink"}}}]}}
]}`
	_, problems, err := adf.Convert("t.json", []byte(template), adf.Options{})
	require.NoError(t, err)
	require.Len(t, problems, 2, "%v", problems)
	text, problems, err := adf.Convert("t.json", []byte(template), adf.Options{Columns: []string{"id:bigint", "name"}, Key: []string{"id"}})
	require.NoError(t, err)
	require.Empty(t, problems)
	task := loaded(t, text).Task("c")
	require.Equal(t, "warehouse", task.Args["conn_id"])
	require.Equal(t, "shop.orders", task.Args["target"])
	require.Equal(t, map[string]any{"file": "in/o.csv", "format": "csv", "delimiter": ";", "encoding": "UTF-8", "null": []any{"NULL"}}, task.Args["source"])
	require.Equal(t, "ignore", task.Args["when_matched"], "a copy that appends leaves rows alone")
}

func TestFilesThatAreNoPipeline(t *testing.T) {
	t.Parallel()
	for text, word := range map[string]string{
		"{\n\"a\": ,}": "line 2", "": "not JSON", "[]": "no pipeline", `{"name": "x"}`: "no pipeline", "a: 1": "not JSON", "null": "no pipeline",
	} {
		_, _, err := adf.Convert("p.json", []byte(text), adf.Options{})
		require.ErrorContains(t, err, word, text)
	}
}

func FuzzConvert(f *testing.F) {
	f.Add([]byte(pipeline))
	f.Add([]byte(`{"properties":{"activities":[{"name":"","type":"Copy"},{"name":"a b","type":"Script","typeProperties":{"scripts":[{"text":"x\n- y: \"z\""}]},"linkedServiceName":{"referenceName":"l"}}]}}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		text, problems, err := adf.Convert("f.json", data, adf.Options{Columns: []string{"a:int"}, Key: []string{"a"}, Partial: true})
		if err != nil || text == "" {
			return
		}
		for _, p := range problems {
			require.NotEqual(t, dag.SeverityError, p.Severity)
		}
		require.NotEmpty(t, load.Files([]bundle.File{{Path: "f.yml", Data: []byte(text)}}, load.Options{Specs: app.Operators().Specs(), Now: time.Now}).DagFiles, text)
	})
}
