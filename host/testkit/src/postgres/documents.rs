//! The outbox tables of the two source documents that describe one, with their own indexes.

/// Document 4's: a row waits by its status, and has a time at which it is due.
pub const BY_STATUS: &str = "\
CREATE TABLE outbox_events (
  id bigserial PRIMARY KEY, routing_key text, aggregate_type text, aggregate_id text, payload json NOT NULL,
  status text NOT NULL DEFAULT 'pending', attempts int NOT NULL DEFAULT 0, available_at timestamptz NOT NULL DEFAULT now(),
  published_at timestamptz, last_error text, created_at timestamptz NOT NULL DEFAULT now(), updated_at timestamptz NOT NULL DEFAULT now());
CREATE INDEX outbox_status ON outbox_events (status, available_at);
CREATE INDEX outbox_aggregate ON outbox_events (aggregate_id)";

/// Document 5's: a row waits until it has a stamp of its publication, or an error that says it is dead.
pub const BY_PUBLICATION: &str = "\
CREATE TABLE outbox_events (
  id uuid PRIMARY KEY, aggregate_type text NOT NULL, aggregate_id text NOT NULL, event_type text NOT NULL,
  event_version int NOT NULL DEFAULT 1, payload jsonb NOT NULL, occurred_at timestamptz NOT NULL DEFAULT now(),
  correlation_id uuid, causation_id uuid, published_at timestamptz, publish_attempts int NOT NULL DEFAULT 0, publish_error text,
  CONSTRAINT chk_occurred_not_future CHECK (occurred_at <= now() + interval '1 minute'));
CREATE INDEX idx_outbox_unpublished ON outbox_events (occurred_at) WHERE published_at IS NULL;
CREATE INDEX idx_outbox_correlation ON outbox_events (correlation_id)";
