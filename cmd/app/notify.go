package app

import (
	"context"
	"log/slog"
	"maps"
	"slices"

	"github.com/airlock-dag/airlock/callbacks"
	"github.com/airlock-dag/airlock/callbacks/command"
	"github.com/airlock-dag/airlock/callbacks/email"
	logcallback "github.com/airlock-dag/airlock/callbacks/log"
	"github.com/airlock-dag/airlock/callbacks/pagerduty"
	"github.com/airlock-dag/airlock/callbacks/slack"
	sqlcallback "github.com/airlock-dag/airlock/callbacks/sql"
	"github.com/airlock-dag/airlock/callbacks/webhook"
	"github.com/airlock-dag/airlock/dag"
	"github.com/airlock-dag/airlock/sql/dialect"
)

// CallbackNames lists the notifiers that DAG files may name, sorted.
func CallbackNames() []string { return slices.Sorted(maps.Keys(callbackSpecs())) }

// callbackSpecs are the arguments of each notifier.
func callbackSpecs() map[string]dag.OperatorSpec {
	out := map[string]dag.OperatorSpec{}
	for _, s := range []dag.OperatorSpec{
		command.Spec(), email.Spec(), logcallback.Spec(), pagerduty.Spec(), slack.Spec(), sqlcallback.Spec(), webhook.Spec(),
	} {
		out[s.Name] = s
	}
	return out
}

// notifiers are the receivers of callback events; log is where the log
// callback writes, installation names this one on its machine.
func notifiers(log *slog.Logger, installation string) []callbacks.Notifier {
	return []callbacks.Notifier{
		webhook.New(), command.New(installation), logcallback.New(log), slack.New(), pagerduty.New(), email.New(), sqlcallback.New(execute),
	}
}

// execute runs a statement for the sql callback, in a transaction of its own.
func execute(ctx context.Context, conn dag.Connection, statement string, args []any) (away bool, err error) {
	db, err := dialect.OpenConnection(ctx, conn, dialect.Options{MaxConns: 1})
	if err == nil {
		defer func() { _ = db.Close() }()
		_, err = db.Writer().ExecContext(ctx, statement, args...)
	}
	switch dialect.ClassOf(err) {
	case dialect.ClassRetryable, dialect.ClassBusy, dialect.ClassLost, dialect.ClassUnavailable, dialect.ClassTimeout, dialect.ClassReadOnly,
		dialect.ClassDiskFull:
		return true, err
	default:
		return false, err
	}
}
