package mergesql_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/airlock-dag/airlock/sql/merge/mergesql"
	"github.com/airlock-dag/airlock/sql/merge/sqltext"
)

func sql(r mergesql.Ref) string {
	switch r.Side {
	case mergesql.Target:
		return "t." + r.Name
	case mergesql.Source:
		return "s." + r.Name
	default:
		return ""
	}
}

func TestParse(t *testing.T) {
	t.Parallel()
	s, err := mergesql.Parse(`
		MERGE INTO shop.silver_orders AS target -- the clean table
		USING stage_orders AS source
		ON target.order_id = source.order_id AND source.day = target.order_date
		WHEN MATCHED AND source.status = 'void, THEN' THEN DELETE
		WHEN MATCHED AND source.modified_at >= target.modified_at THEN UPDATE SET *
		WHEN MATCHED AND source.n IN (1, 2) THEN UPDATE SET n = CASE WHEN target.n > 1 THEN target.n + source.n ELSE COALESCE(source.n, 0) END, target.note = 'x'
		WHEN NOT MATCHED AND source.status <> 'void' THEN INSERT (order_id, n) VALUES (source.order_id, 1 + 1)
		WHEN NOT MATCHED THEN DO NOTHING;`, sqltext.MySQL)
	require.NoError(t, err)
	require.Equal(t, "shop.silver_orders", s.Target)
	require.Equal(t, "stage_orders", s.Source)
	require.Equal(t, []mergesql.Pair{{Target: "order_id", Source: "order_id"}, {Target: "order_date", Source: "day"}}, s.On)
	require.Len(t, s.Clauses, 5)
	require.Equal(t, mergesql.Delete, s.Clauses[0].Action)
	require.Equal(t, "s.status = 'void, THEN'", s.Clauses[0].When.SQL(sql))
	require.True(t, s.Clauses[1].All)
	require.Equal(t, "s.modified_at >= t.modified_at", s.Clauses[1].When.SQL(sql))
	set := s.Clauses[2].Set
	require.Equal(t, "n", set[0].Column)
	require.Equal(t, "CASE WHEN t.n > 1 THEN t.n + s.n ELSE COALESCE(s.n, 0) END", set[0].Value.SQL(sql))
	require.Equal(t, "note", set[1].Column)
	require.Equal(t, mergesql.Insert, s.Clauses[3].Action)
	require.Equal(t, "1 + 1", s.Clauses[3].Set[1].Value.SQL(sql))
	require.Equal(t, mergesql.Nothing, s.Clauses[4].Action)

	s, err = mergesql.Parse("merge into `t` using (select a, (b) from x where c = ')') s on (t.a = s.a) when matched then update set * when not matched by target then insert *", sqltext.SQLite)
	require.NoError(t, err)
	require.Equal(t, "select a, (b) from x where c = ')'", s.Query)
	require.Equal(t, "t", s.TargetAlias)
	require.Equal(t, "s", s.SourceAlias)
}

func TestParseRefusesWithThePlace(t *testing.T) {
	t.Parallel()
	head := "MERGE INTO t USING s ON t.k = s.k\n"
	for in, want := range map[string]string{
		"":                                                                      "the statement ends where MERGE is needed",
		"UPDATE t SET a = 1":                                                    "line 1, column 1: found UPDATE where MERGE is needed",
		"MERGE INTO t USING s ON t.k = s.k":                                     "WHEN MATCHED or WHEN NOT MATCHED",
		"MERGE INTO t USING s ON t.k > s.k":                                     "line 1, column 29: found >",
		"MERGE INTO t USING s ON k = s.k":                                       "write t.k or s.k",
		"MERGE INTO t USING s ON t.k = t.k":                                     "ON compares a column of t with one of s",
		"MERGE INTO t USING s ON t.k = x.k":                                     "there is no table x here",
		"MERGE INTO t USING t ON t.k = t.k":                                     "both called t",
		"MERGE INTO t USING s ON t.k = s.k OR t.j = s.j":                        "AND or WHEN",
		"MERGE INTO t USING (DELETE FROM s) s ON t.k = s.k":                     "SELECT is needed",
		head + "WHEN NOT MATCHED BY SOURCE AND s.a = 1 THEN DELETE":             "line 2, column 1: a row that the source has not has no s columns",
		head + "WHEN NOT MATCHED BY SOURCE THEN INSERT *":                       "BY SOURCE take UPDATE or DELETE",
		head + "WHEN NOT MATCHED BY SOURCE THEN UPDATE SET *":                   "has no values to set",
		head + "WHEN NOT MATCHED BY SOURCE THEN UPDATE SET a = s.a":             "has no s columns",
		head + "WHEN NOT MATCHED BY WHOM THEN DELETE":                           "found WHOM where SOURCE or TARGET is needed",
		head + "WHEN MATCHED BY SOURCE THEN DELETE":                             "WHEN MATCHED takes no BY",
		head + "WHEN MATCHED THEN INSERT *":                                     "INSERT needs a row that is not matched",
		head + "WHEN NOT MATCHED THEN UPDATE SET *":                             "UPDATE needs a matched row",
		head + "WHEN MATCHED THEN UPDATE SET a = ":                              "the statement ends where a value is needed",
		head + "WHEN MATCHED THEN UPDATE SET a = 1, a = 2":                      "the column a is set twice",
		head + "WHEN MATCHED THEN UPDATE SET a = (SELECT 1)":                    "a query inside an expression",
		head + "WHEN MATCHED THEN UPDATE SET a = q.a":                           "there is no table q here",
		head + "WHEN MATCHED THEN DELETE WHEN MATCHED THEN UPDATE SET *":        "never reached",
		head + "WHEN NOT MATCHED THEN INSERT (a, b) VALUES (1)":                 "one value for each",
		head + "WHEN NOT MATCHED THEN INSERT (a) VALUES (t.a)":                  "has no t columns",
		head + "WHEN NOT MATCHED AND t.a = 1 THEN INSERT *":                     "has no t columns",
		head + "WHEN MATCHED THEN DELETE; SELECT 1":                             "found ; where WHEN is needed",
		head + "WHEN MATCHED THEN UPDATE SET a = CASE WHEN 1 THEN 2":            "the expression that is open",
		"MERGE INTO t USING s ON t.k = s.k WHEN MATCHED THEN UPDATE SET a = 'x": "not closed",
	} {
		_, err := mergesql.Parse(in, sqltext.MySQL)
		require.Error(t, err, in)
		require.ErrorContains(t, err, want, in)
		require.ErrorContains(t, err, "line ", in)
	}
}

func FuzzParse(f *testing.F) {
	f.Add("MERGE INTO t AS a USING (SELECT 1) b ON a.k = b.k WHEN MATCHED AND a.x < b.x THEN UPDATE SET x = b.x, y = 'q' WHEN NOT MATCHED THEN INSERT (k) VALUES (b.k)")
	f.Add("merge into `t` using s on (t.a=s.a) when matched then delete")
	for _, seed := range []string{
		"MERGE INTO d.t USING s ON t.a = s.a AND s.b = t.b WHEN NOT MATCHED BY SOURCE AND t.c IN (1, 'x') THEN UPDATE SET t.c = CASE WHEN t.c > 1 THEN 2 ELSE t.c END WHEN NOT MATCHED BY TARGET THEN DO NOTHING;",
		"MERGE INTO t USING (SELECT ')' AS a /* ( */ FROM x -- ) \n) s ON s.a <=> t.a WHEN MATCHED THEN UPDATE SET *",
		"MERGE INTO t x USING (VALUES (1)) y ON (x.a = y.a) WHEN NOT MATCHED THEN INSERT (a, b) VALUES (y.a, CONCAT(y.a, \"q'\"))",
		"MERGE INTO \"t\" USING [s] ON t.a = s.a WHEN MATCHED AND (((t.a)))=1 THEN DELETE WHEN MATCHED THEN DO NOTHING",
		"MERGE INTO t USING s ON t.a = s.a WHEN MATCHED THEN UPDATE SET a = 'x", "MERGE", "MERGE INTO t USING ( ON", "\x00 \xff MERGE INTO t",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		for _, flavour := range []sqltext.Flavour{sqltext.MySQL, sqltext.SQLite} {
			s, err := mergesql.Parse(text, flavour)
			if err != nil {
				continue
			}
			require.NotEmpty(t, s.On)
			require.NotEmpty(t, s.Clauses)
			for _, c := range s.Clauses {
				require.False(t, c.Matched && c.BySource)
				if c.When != nil {
					_ = c.When.SQL(sql)
				}
				for i := range c.Set {
					_ = c.Set[i].Value.SQL(sql)
					require.NotEmpty(t, c.Set[i].Column)
				}
			}
		}
		_, _ = mergesql.ParseExpr(text, sqltext.MySQL)
	})
}
