package flows

import (
	"encoding/json"
	"errors"
	"regexp"
)

// Version 1 of an order came from a producer that wrote money as text and called
// a line's quantity qty.
var _ = registerMigration(Migration{Flow: "order.create", From: "1", To: "2", Migrate: orderTwo})

var plainAmount = regexp.MustCompile(`^(0|[1-9][0-9]{0,14})(\.[0-9]{1,4})?$`)

func orderTwo(e MigrationEvent) (MigrationEvent, error) {
	order, ok := e.Payload.(map[string]any)
	if !ok {
		return e, errors.New("the data is no object")
	}
	if amount, ok := order["amount"].(string); ok {
		if !plainAmount.MatchString(amount) {
			return e, errors.New("amount is a text and no plain number")
		}
		order["amount"] = json.Number(amount)
	}
	lines, _ := order["lines"].([]any)
	for _, one := range lines {
		line, ok := one.(map[string]any)
		if !ok {
			return e, errors.New("a line is no object")
		}
		qty, old := line["qty"]
		if !old {
			continue
		}
		if _, both := line["quantity"]; both {
			return e, errors.New("a line has qty and quantity")
		}
		line["quantity"] = qty
		delete(line, "qty")
	}
	return e, nil
}
