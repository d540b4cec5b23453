-- The shop's own tables, and its outbox in the form of source document 4.
CREATE TABLE IF NOT EXISTS customers (
  id text PRIMARY KEY,
  orders int NOT NULL DEFAULT 0
);

CREATE TABLE IF NOT EXISTS orders (
  id text PRIMARY KEY,
  customer text NOT NULL REFERENCES customers,
  number int NOT NULL,            -- the customer's first, second, ... order
  cents int NOT NULL,
  placed_at timestamptz NOT NULL DEFAULT now(),
  UNIQUE (customer, number)
);

-- What goes to NATS.
CREATE TABLE IF NOT EXISTS outbox_events (
  id bigserial PRIMARY KEY,
  routing_key text NOT NULL,
  aggregate_type text,
  aggregate_id text,
  payload json NOT NULL,
  status text NOT NULL DEFAULT 'pending',     -- pending, processing, published, failed
  attempts int NOT NULL DEFAULT 0,
  available_at timestamptz NOT NULL DEFAULT now(),
  published_at timestamptz,
  last_error text,
  created_at timestamptz NOT NULL DEFAULT now(),
  updated_at timestamptz NOT NULL DEFAULT now()
);
CREATE INDEX IF NOT EXISTS outbox_status ON outbox_events (status, available_at);
CREATE INDEX IF NOT EXISTS outbox_aggregate ON outbox_events (aggregate_id);

-- What goes to the webhook: the same columns and indexes, and the same sequence.
CREATE TABLE IF NOT EXISTS webhook_events (LIKE outbox_events INCLUDING ALL);
