package merge

import (
	"context"
	"fmt"

	"github.com/jmoiron/sqlx"
)

// readMySQLTriggers looks for triggers. A user without the right to make them
// does not see them either, and roles are not looked into: then there may be some.
// made says that the table is still to be made, without any.
func (t *target) readMySQLTriggers(ctx context.Context, q sqlx.QueryerContext, schema, table string, made bool) error {
	const me = `CONCAT('''', SUBSTRING_INDEX(CURRENT_USER(), '@', 1), '''@''', SUBSTRING_INDEX(CURRENT_USER(), '@', -1), '''')`
	err := q.QueryRowxContext(ctx, `SELECT (? OR (SELECT COUNT(*) FROM information_schema.TABLES WHERE TABLE_SCHEMA = s.name AND TABLE_NAME = ? AND TABLE_TYPE = 'BASE TABLE' AND ENGINE = 'InnoDB') > 0)
		AND (SELECT COUNT(*) FROM information_schema.TRIGGERS WHERE EVENT_OBJECT_SCHEMA = s.name AND EVENT_OBJECT_TABLE = ?) = 0
		AND ((SELECT COUNT(*) FROM information_schema.USER_PRIVILEGES WHERE GRANTEE = `+me+` AND PRIVILEGE_TYPE = 'TRIGGER') > 0
			OR (SELECT COUNT(*) FROM information_schema.SCHEMA_PRIVILEGES WHERE GRANTEE = `+me+` AND PRIVILEGE_TYPE = 'TRIGGER' AND s.name LIKE TABLE_SCHEMA) > 0
			OR (SELECT COUNT(*) FROM information_schema.TABLE_PRIVILEGES WHERE GRANTEE = `+me+` AND PRIVILEGE_TYPE = 'TRIGGER' AND TABLE_SCHEMA = s.name AND TABLE_NAME = ?) > 0)
		FROM (SELECT COALESCE(NULLIF(?, ''), DATABASE()) AS name) AS s`, made, table, table, table, schema).Scan(&t.quiet)
	if err != nil {
		return fmt.Errorf("look for triggers: %w", err)
	}
	return nil
}
