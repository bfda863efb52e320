package webhook_test

import (
	"testing"

	"github.com/airlock-dag/airlock/callbacks"
	"github.com/airlock-dag/airlock/callbacks/notifytest"
	"github.com/airlock-dag/airlock/callbacks/webhook"
	"github.com/airlock-dag/airlock/dag"
)

func TestServersThatMisbehave(t *testing.T) {
	t.Parallel()
	n := webhook.New()
	notifytest.Misbehaviours(t, func(t *testing.T, address, timeout string) error {
		return n.Notify(t.Context(), notifytest.Delivery(t, notifytest.Failed(),
			callbacks.Args{"url": address + "/?token=" + notifytest.Secret, "secret_conn_id": "hook", "timeout": timeout},
			dag.Connection{Password: notifytest.Secret}))
	})
}
