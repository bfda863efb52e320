package sqltext_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/airlock-dag/airlock/sql/merge/sqltext"
)

func TestSplitKnowsQuotesAndComments(t *testing.T) {
	t.Parallel()
	for in, want := range map[string][]string{
		"":                               nil,
		" ; ;; ":                         nil,
		"SELECT 1":                       {"SELECT 1"},
		"SELECT 1;":                      {"SELECT 1"},
		"SELECT ';'; SELECT `a;b`":       {"SELECT ';'", "SELECT `a;b`"},
		"SELECT 'it''s;'; SELECT \"x;\"": {"SELECT 'it''s;'", "SELECT \"x;\""},
		`SELECT 'a\';b'; SELECT 2`:       {`SELECT 'a\';b'`, "SELECT 2"},
		"-- a;b\nSELECT 1; # c;d\nSELECT 2 /* ; */": {"SELECT 1", "SELECT 2"},
		"SELECT 1 -- tail;\n;SELECT 2":              {"SELECT 1", "SELECT 2"},
		"SELECT 5--1; SELECT 2":                     {"SELECT 5--1", "SELECT 2"},
		"CREATE TRIGGER t AFTER INSERT ON x BEGIN UPDATE y SET a=1; UPDATE z SET b = CASE WHEN 1 THEN 2 END; END; SELECT 1": {
			"CREATE TRIGGER t AFTER INSERT ON x BEGIN UPDATE y SET a=1; UPDATE z SET b = CASE WHEN 1 THEN 2 END; END", "SELECT 1",
		},
		"CREATE PROCEDURE p() BEGIN IF 1 THEN SELECT 1; END IF; SELECT 2; END; SELECT 3": {
			"CREATE PROCEDURE p() BEGIN IF 1 THEN SELECT 1; END IF; SELECT 2; END", "SELECT 3",
		},
	} {
		got, err := sqltext.MySQL.Split(in)
		require.NoError(t, err, in)
		var texts []string
		for _, s := range got {
			texts = append(texts, s.SQL)
		}
		require.Equal(t, want, texts, in)
	}
	for _, in := range []string{"SELECT 'x", "SELECT `x", "/* x", "SELECT \"x"} {
		_, err := sqltext.MySQL.Split(in)
		require.Error(t, err, in)
	}
	_, err := sqltext.MySQL.Split("SELECT 1;\n  SELECT 'x")
	require.EqualError(t, err, "line 2, column 10: a text is opened with ' and not closed")
}

func TestFlavours(t *testing.T) {
	t.Parallel()
	got, err := sqltext.SQLite.Split("SELECT 'a\\'; SELECT 1 --x;y\n; SELECT 2")
	require.NoError(t, err)
	require.Len(t, got, 3)
	got, err = sqltext.MySQL.Split(`SELECT 'a\'; b'; SELECT 1 # x;y`)
	require.NoError(t, err)
	require.Len(t, got, 2)
}

func TestStatementKinds(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]struct {
		word string
		ddl  bool
		rows bool
	}{
		"CREATE TABLE x (a INT)":                {"CREATE TABLE", true, false},
		"create or replace view v as select 1":  {"CREATE VIEW", true, false},
		"CREATE TEMPORARY TABLE x (a INT)":      {"CREATE TEMPORARY", false, false},
		"DROP TABLE IF EXISTS x":                {"DROP TABLE", true, false},
		"TRUNCATE x":                            {"TRUNCATE X", true, false},
		"INSERT INTO x VALUES ('CREATE TABLE')": {"", false, false},
		"INSERT INTO x VALUES (1) RETURNING id": {"", false, true},
		"/* c */ SELECT 1":                      {"", false, true},
		"(SELECT 1) UNION (SELECT 2)":           {"", false, true},
		"WITH a AS (SELECT 1) SELECT * FROM a":  {"", false, true},
		"WITH a AS (SELECT 1) DELETE FROM x":    {"", false, false},
		"UPDATE x SET a = 1":                    {"", false, false},
	} {
		got, err := sqltext.MySQL.Split(in)
		require.NoError(t, err)
		require.Len(t, got, 1)
		word, ddl := got[0].CommitsSilently()
		require.Equal(t, want.ddl, ddl, in)
		if ddl {
			require.Equal(t, want.word, word)
		}
		require.Equal(t, want.rows, got[0].ReturnsRows(), in)
	}
}

func TestBind(t *testing.T) {
	t.Parallel()
	sql, args, unused, err := sqltext.MySQL.Bind("SELECT ':no', a FROM t WHERE a >= :from AND b IN (:list) AND c = :from", map[string]any{"from": 1, "list": []any{2, 3}, "z": 0})
	require.NoError(t, err)
	require.Equal(t, "SELECT ':no', a FROM t WHERE a >= ? AND b IN (?,?) AND c = ?", sql)
	require.Equal(t, []any{1, 2, 3, 1}, args)
	require.Equal(t, []string{"z"}, unused)
	sql, args, _, err = sqltext.MySQL.Bind("SELECT %(a)s, '%(b)s', 7 % (a)", map[string]any{"a": 1})
	require.NoError(t, err)
	require.Equal(t, "SELECT ?, '%(b)s', 7 % (a)", sql)
	require.Equal(t, []any{1}, args)
	_, _, _, err = sqltext.MySQL.Bind("SELECT :a", nil)
	require.ErrorContains(t, err, ":a has no value")
	sql, args, err = sqltext.MySQL.BindList("SELECT '?', ?, %s", []any{1, 2})
	require.NoError(t, err)
	require.Equal(t, "SELECT '?', ?, ?", sql)
	require.Equal(t, []any{1, 2}, args)
	_, _, err = sqltext.MySQL.BindList("SELECT ?", nil)
	require.Error(t, err)
}

func FuzzSplit(f *testing.F) {
	f.Add("SELECT 1; -- x\nSELECT 'a''b'; CREATE TRIGGER t BEGIN x; END;")
	f.Fuzz(func(t *testing.T, s string) {
		got, err := sqltext.MySQL.Split(s)
		if err != nil {
			return
		}
		for _, st := range got {
			again, err := sqltext.MySQL.Split(st.SQL)
			require.NoError(t, err)
			require.LessOrEqual(t, len(again), 1)
		}
	})
}
