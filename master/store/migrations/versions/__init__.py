"""One file per step of the schema; `catena.master.store.schema.HEAD` names the last."""
