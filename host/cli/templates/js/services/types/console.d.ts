// What src/console.js puts there.
declare var console: Record<"trace" | "debug" | "log" | "info" | "warn" | "error", (...values: unknown[]) => void>;
