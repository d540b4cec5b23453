//! Codes of requests as such: who may ask, what is read of a request, and calls over HTTP.

codes! {
    AUTH_EXPIRED = "AUTH.EXPIRED" => answered(401, "The token has expired",
        "Ask for another token: `waybill token create` makes one.");
    AUTH_GRANT = "AUTH.GRANT" => answered(403, "The token may not grant what it doesn't have",
        "Ask for roles and tenants that the token has itself, or use one that has all of them.");
    AUTH_HOST = "AUTH.HOST" => answered(421, "The Host header names another host",
        "Address the host as localhost, 127.0.0.1 or [::1], or configure [[auth.token]].");
    AUTH_NO_TOKENS = "AUTH.NO_TOKENS" => answered(401, "The host asks for a token and knows none",
        "Make one with `waybill token create`, with `--data DIR` while no host runs, or configure [[auth.token]].");
    AUTH_ORIGIN = "AUTH.ORIGIN" => answered(403, "A browser page that isn't the host's own asked",
        "Call the API from a program, or configure [[auth.token]].");
    AUTH_PROVIDER = "AUTH.PROVIDER" => retryable(502, "The provider that people sign in at can't be used",
        "Begin again at /ui/sign-in; if it goes on, compare [auth.oidc] with what the provider says of itself.");
    AUTH_PROXY = "AUTH.PROXY" => answered(403, "The request came through a proxy",
        "Address the host directly, or configure [[auth.token]].");
    AUTH_REQUIRED = "AUTH.REQUIRED" => answered(401, "A valid token is needed",
        "Send `authorization: Bearer <token>`; `waybill token create` makes one, and [[auth.token]] in the configuration is one.");
    AUTH_ROLE = "AUTH.ROLE" => answered(403, "The token's roles don't allow this",
        "Use a token with the role that `detail` names.");
    AUTH_SIGN_IN = "AUTH.SIGN_IN" => answered(403, "The sign-in came to nothing",
        "Begin again at /ui/sign-in; what `detail` names is set right at the provider or in [auth.oidc].");
    AUTH_STREAM = "AUTH.STREAM" => answered(403, "The token isn't for this stream",
        "Name a stream that a role of the token matches, or give it `append:PATTERN` or `read:PATTERN`.");
    AUTH_TABLE = "AUTH.TABLE" => answered(403, "The statement touches Waybill's own tables",
        "Use the API for messages, and tables of your own.");
    AUTH_TENANT = "AUTH.TENANT" => answered(403, "The token isn't for this tenant",
        "Name a tenant of the token, or use another token.");
    AUTH_TOKEN_CONFIGURED = "AUTH.TOKEN_CONFIGURED" => answered(409, "The token is configured",
        "Take its [[auth.token]] out of the configuration, and reload that.");
    AUTH_TOKEN_LIMIT = "AUTH.TOKEN_LIMIT" => answered(409, "As many tokens are stored as may be",
        "Revoke some: `waybill token list` shows them.");
    AUTH_TOKEN_NOT_FOUND = "AUTH.TOKEN_NOT_FOUND" => answered(404, "There is no token of this name",
        "`waybill token list` shows the names.");
    AUTH_TOKEN_TAKEN = "AUTH.TOKEN_TAKEN" => answered(409, "There is a token of this name already",
        "Choose another name, or revoke that one first.");
    HTTP_ANSWER_DROPPED = "HTTP.ANSWER_DROPPED" => answered(500, "It is done, but there was no room for its answer",
        "Don't do it anew: send the same request with the same Idempotency-Key or ids, or look at what was made.");
    HTTP_CANCELLED = "HTTP.CANCELLED";
    HTTP_CONNECT = "HTTP.CONNECT";
    HTTP_DENIED = "HTTP.DENIED";
    HTTP_HEAD_TOO_LARGE = "HTTP.HEAD_TOO_LARGE" => answered(431, "The head of the request is too large",
        "Send fewer or shorter headers; cookies of other services on the same name are a common cause.");
    HTTP_LIMIT = "HTTP.LIMIT";
    HTTP_MEDIA_TYPE = "HTTP.MEDIA_TYPE" => answered(415, "The body's media type isn't taken",
        "Send `content-type: application/json`.");
    HTTP_METHOD = "HTTP.METHOD" => answered(405, "The address doesn't take this method",
        "Use a method of the `allow` header.");
    HTTP_NOT_FOUND = "HTTP.NOT_FOUND" => answered(404, "There is no such address",
        "/openapi.json lists the addresses.");
    HTTP_OTHER = "HTTP.OTHER";
    HTTP_OVERLOADED = "HTTP.OVERLOADED" => retryable(503, "Too many requests or connections at once",
        "Try again after `retry_after_ms`.");
    HTTP_REDIRECT = "HTTP.REDIRECT";
    HTTP_RESET = "HTTP.RESET";
    HTTP_RESOLVE = "HTTP.RESOLVE";
    HTTP_SHARE = "HTTP.SHARE" => retryable(429, "The caller has its share already",
        "Try again after `retry_after_ms`, with fewer requests at once or over fewer connections.");
    HTTP_SLOW_BODY = "HTTP.SLOW_BODY" => retryable(408, "The body didn't arrive",
        "Send the request again, its body without pauses.");
    HTTP_TIMEOUT = "HTTP.TIMEOUT";
    HTTP_TLS = "HTTP.TLS";
    HTTP_TOO_LARGE = "HTTP.TOO_LARGE" => answered(413, "The body is too large", "Split the request.");
    HTTP_UNSUPPORTED = "HTTP.UNSUPPORTED";
    HTTP_URI_TOO_LONG = "HTTP.URI_TOO_LONG" => answered(414, "The address is too long",
        "Shorten the filter or the list of names in it, or ask several times.");
    PROVIDER_UNAVAILABLE = "PROVIDER.UNAVAILABLE" => retryable(503, "The host doesn't take this now",
        "Try again after `retry_after_ms`; /readyz tells what is missing.");
    SCHEMA_JSON = "SCHEMA.JSON" => answered(400, "The body isn't JSON",
        "Correct the text at the line and column given.");
    SCHEMA_VALIDATION_FAILED = "SCHEMA.VALIDATION_FAILED" => answered(400, "The request isn't usable",
        "Correct what `path` and `detail` name; /openapi.json has the shapes.");
    UNKNOWN_INTERNAL = "UNKNOWN.INTERNAL" => retryable(500, "Something went wrong in the host",
        "Look for the request_id in the host's log. Enqueue with an id of your own, then sending again is safe.");
}
