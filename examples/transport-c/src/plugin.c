// A transport over a byte stream of its own, in C: writes messages into the books of a ledger.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "text.h"
#include "transport_basic.h"

typedef exports_waybill_plugin_transport_api_call_info_t call_t;
typedef exports_waybill_plugin_transport_api_plugin_error_t failure_t;
typedef exports_waybill_plugin_transport_api_outcome_t outcome_t;
typedef waybill_plugin_types_fault_t fault_t;

// Milliseconds of a call's time that are kept back, so that the answer still reaches the host in time.
enum { MARGIN_MS = 250, SILENCE_MS = 3000, TICK_EVERY_MS = 20000, WINDOW = 64, READ_BYTES_MAX = 256 * 1024 };

static char *address;
// The connection between calls, with the bytes of it that aren't understood yet.
static waybill_plugin_net_blocking_own_connection_t peer;
static bool connected;
static text_t unread;

static transport_basic_string_t string(const char *text) {
  transport_basic_string_t made;
  transport_basic_string_dup(&made, text);
  return made;
}

static fault_t fault(const char *code, const char *reason, bool maybe_delivered) {
  return (fault_t){.code = string(code), .reason = string(reason), .maybe_delivered = maybe_delivered};
}

// Fails the call as a whole. The connection is given up: nobody knows what is still to come on it.
static bool fail(failure_t *failure, uint8_t kind, const char *code, const char *reason, bool maybe_delivered) {
  if (connected) waybill_plugin_net_blocking_connection_drop_own(peer);
  connected = false;
  unread.length = 0;
  *failure = (failure_t){.kind = kind, .fault = fault(code, reason, maybe_delivered)};
  return false;
}

static bool fail_net(failure_t *failure, const char *code, waybill_plugin_net_blocking_net_error_t *error, bool maybe_delivered) {
  static const char *const words[] = {"denied", "the name can't be resolved", "nobody listens", "the time is over",
                                      "the ledger hung up", "the connection broke", "TLS failed", "busy",
                                      "cancelled", "too many connections", "unsupported", "the network failed"};
  // Which line of the grant is missing, and the like.
  text_t reason = {0};
  text_add(&reason, words[error->tag], strlen(words[error->tag]));
  bool told = error->tag == 0 || error->tag == 1 || error->tag == 5 || error->tag == 6 || error->tag >= 9;
  if (told) {
    text_add(&reason, ": ", 2);
    text_add(&reason, error->val.other.ptr, error->val.other.len);
  }
  // What only an operator can mend is `denied`, the rest `unavailable`.
  bool denied = error->tag == WAYBILL_PLUGIN_NET_TYPES_NET_ERROR_DENIED || error->tag == WAYBILL_PLUGIN_NET_TYPES_NET_ERROR_TLS;
  uint8_t kind = denied ? WAYBILL_PLUGIN_TYPES_ERROR_KIND_DENIED : WAYBILL_PLUGIN_TYPES_ERROR_KIND_UNAVAILABLE;
  waybill_plugin_net_types_net_error_free(error);
  fail(failure, kind, code, text_c(&reason), maybe_delivered);
  text_free(&reason);
  return false;
}

static uint32_t time_left(const call_t *call) {
  uint32_t left = waybill_plugin_control_remaining(call->id);
  if (left <= MARGIN_MS + 1) return 1;
  return left - MARGIN_MS < SILENCE_MS ? left - MARGIN_MS : SILENCE_MS;
}

static bool write_all(const call_t *call, const text_t *bytes, failure_t *failure) {
  transport_basic_list_u8_t list = {(uint8_t *)bytes->bytes, bytes->length};
  uint32_t timeout = time_left(call);
  waybill_plugin_net_blocking_net_error_t error;
  waybill_plugin_net_blocking_borrow_connection_t to = waybill_plugin_net_blocking_borrow_connection(peer);
  if (waybill_plugin_net_blocking_method_connection_write(to, &list, &timeout, &error)) return true;
  return fail_net(failure, "LEDGER.LOST", &error, true);
}

// The next line, without its end; it has to be freed.
static char *read_line(const call_t *call, failure_t *failure) {
  for (;;) {
    char *line = text_line(&unread);
    if (line != NULL) return line;
    transport_basic_list_u8_t more;
    uint32_t timeout = time_left(call);
    waybill_plugin_net_blocking_net_error_t error;
    waybill_plugin_net_blocking_borrow_connection_t from = waybill_plugin_net_blocking_borrow_connection(peer);
    if (!waybill_plugin_net_blocking_method_connection_read(from, 1, READ_BYTES_MAX, &timeout, &more, &error)) {
      fail_net(failure, "LEDGER.LOST", &error, true);
      return NULL;
    }
    text_add(&unread, more.ptr, more.len);
    transport_basic_list_u8_free(&more);
    if (unread.length > READ_BYTES_MAX) {
      fail(failure, WAYBILL_PLUGIN_TYPES_ERROR_KIND_UNAVAILABLE, "LEDGER.PROTOCOL", "the ledger's line has no end", true);
      return NULL;
    }
  }
}

static bool ask(const call_t *call, const text_t *question, const char *answer, uint8_t kind, const char *code, failure_t *failure) {
  if (question->length > 0 && !write_all(call, question, failure)) return false;
  char *line = read_line(call, failure);
  if (line == NULL) return false;
  bool right = strcmp(line, answer) == 0;
  if (!right) {
    char reason[160];
    snprintf(reason, sizeof reason, "the ledger answers \"%.100s\" where %s is due", line, answer);
    char *shown = text_utf8(reason);
    fail(failure, kind, code, shown, false);
    free(shown);
  }
  free(line);
  return right;
}

static bool reconnect(const call_t *call, failure_t *failure) {
  if (connected) return true;
  text_t to = {0};
  text_add(&to, "tcp://", 6);
  text_add(&to, address, strlen(address));
  transport_basic_string_t uri = {(uint8_t *)to.bytes, to.length};
  waybill_plugin_net_blocking_connect_options_t options = {.timeout = time_left(call)};
  waybill_plugin_net_blocking_net_error_t error;
  connected = waybill_plugin_net_blocking_static_connection_connect(&uri, &options, &peer, &error);
  text_free(&to);
  if (!connected) return fail_net(failure, "LEDGER.CONNECT", &error, false);
  text_t nothing = {0};
  if (!ask(call, &nothing, "LEDGER 1", WAYBILL_PLUGIN_TYPES_ERROR_KIND_UNSUPPORTED, "LEDGER.PROTOCOL", failure)) return false;
  text_t hello = {0};
  text_add(&hello, "HELLO ", 6);
  // The granted token; none if it isn't granted.
  transport_basic_string_t name = {(uint8_t *)"token", 5};
  waybill_plugin_secrets_secret_t secret;
  waybill_plugin_secrets_secret_error_t none;
  if (waybill_plugin_secrets_get(&name, &secret, &none)) {
    text_word(&hello, secret.value.ptr, secret.value.len);
    waybill_plugin_secrets_secret_free(&secret);
  }
  text_add(&hello, "\n", 1);
  bool welcome = ask(call, &hello, "WELCOME", WAYBILL_PLUGIN_TYPES_ERROR_KIND_DENIED, "LEDGER.DENIED", failure);
  text_free(&hello);
  return welcome;
}

static bool ping(const call_t *call, failure_t *failure) {
  text_t question = {.bytes = "PING\n", .length = 5};
  return reconnect(call, failure) &&
         ask(call, &question, "PONG", WAYBILL_PLUGIN_TYPES_ERROR_KIND_UNAVAILABLE, "LEDGER.PROTOCOL", failure);
}

// What an answer means for the message; false if it is none.
static bool outcome_of(char *line, outcome_t *outcome) {
  char *space = strchr(line, ' ');
  char *why = space == NULL ? "" : space + 1;
  if (space != NULL) *space = 0;
  *outcome = (outcome_t){0};
  if (strcmp(line, "OK") == 0 || strcmp(line, "KNOWN") == 0) {
    outcome->tag = WAYBILL_PLUGIN_TYPES_OUTCOME_ACK;
    outcome->val.ack.broker_ref = (transport_basic_option_string_t){true, string(why)};
    outcome->val.ack.duplicate = line[0] == 'K';
  } else if (strcmp(line, "BUSY") == 0) {
    char *rest;
    unsigned long after = strtoul(why, &rest, 10);
    outcome->tag = WAYBILL_PLUGIN_TYPES_OUTCOME_RETRYABLE;
    outcome->val.retryable = fault("LEDGER.BUSY", rest + (*rest == ' '), false);
    outcome->val.retryable.after = (waybill_plugin_types_option_millis_t){true, after};
  } else if (strcmp(line, "NO") == 0) {
    outcome->tag = WAYBILL_PLUGIN_TYPES_OUTCOME_PERMANENT;
    outcome->val.permanent = fault("LEDGER.NO", why, false);
  } else if (strcmp(line, "CLOSED") == 0) {
    // An empty scope is the message's destination: only this book is held, and no attempt counts.
    outcome->tag = WAYBILL_PLUGIN_TYPES_OUTCOME_BLOCKED;
    outcome->val.blocked.fault = fault("LEDGER.CLOSED", why, false);
  } else {
    return false;
  }
  return true;
}

static void put(text_t *out, const exports_waybill_plugin_transport_api_message_t *message) {
  char length[16];
  text_add(out, "PUT ", 4);
  text_word(out, message->id.ptr, message->id.len);
  text_add(out, " ", 1);
  text_word(out, message->destination.ptr, message->destination.len);
  text_add(out, length, snprintf(length, sizeof length, " %zu\n", message->payload.len));
  text_add(out, message->payload.ptr, message->payload.len);
  text_add(out, "\n", 1);
}

// Outcomes of a batch, as they come; at most WINDOW messages are under way without an answer.
static bool deliver(const call_t *call, exports_waybill_plugin_transport_api_list_message_t *batch, outcome_t *outcomes, size_t *told, failure_t *failure) {
  if (!reconnect(call, failure)) return false;
  for (size_t sent = 0; *told < batch->len;) {
    // All that the window takes in one write, once half of it is free: each is a crossing into the host.
    text_t request = {0};
    size_t end = sent - *told > WINDOW / 2 ? sent : *told + WINDOW;
    for (; sent < batch->len && sent < end; sent++) put(&request, &batch->ptr[sent]);
    bool written = request.length == 0 || write_all(call, &request, failure);
    text_free(&request);
    if (!written) return false;
    char *line = read_line(call, failure);
    if (line == NULL) return false;
    bool known = outcome_of(line, &outcomes[*told]);
    free(line);
    if (!known) return fail(failure, WAYBILL_PLUGIN_TYPES_ERROR_KIND_UNAVAILABLE, "LEDGER.PROTOCOL", "the ledger answers what no version of it does", true);
    // Told at once: it stands, whatever becomes of the rest.
    waybill_plugin_progress_settled(call->id, *told, &outcomes[*told]);
    *told += 1;
  }
  return true;
}

bool exports_waybill_plugin_transport_api_open(call_t *call, exports_waybill_plugin_transport_api_open_args_t *args,
                                               exports_waybill_plugin_transport_api_opened_t *ret, failure_t *err) {
  // Valid by the schema in waybill-plugin.toml: {"address":"HOST:PORT"}.
  address = text_member(args->config.ptr, args->config.len, "\"address\"");
  bool open = reconnect(call, err);
  // One call at a time: this world blocks.
  if (open) {
    *ret = (exports_waybill_plugin_transport_api_opened_t){
        .peer = {true, string(address)}, .max_concurrent_calls = 1, .tick_every = {true, TICK_EVERY_MS}};
  }
  exports_waybill_plugin_transport_api_open_args_free(args);
  exports_waybill_plugin_transport_api_call_info_free(call);
  return open;
}

bool exports_waybill_plugin_transport_api_send_batch(call_t *call, exports_waybill_plugin_transport_api_list_message_t *batch,
                                                     exports_waybill_plugin_transport_api_list_outcome_t *ret, failure_t *err) {
  outcome_t *outcomes = calloc(batch->len, sizeof *outcomes);
  size_t told = 0;
  if (outcomes == NULL && batch->len > 0) abort();
  // Exactly one outcome a message, in order.
  *ret = (exports_waybill_plugin_transport_api_list_outcome_t){outcomes, batch->len};
  bool delivered = deliver(call, batch, outcomes, &told, err);
  if (!delivered) {
    // A list without members frees nothing.
    for (size_t at = 0; at < told; at++) exports_waybill_plugin_transport_api_outcome_free(&outcomes[at]);
    free(outcomes);
  }
  exports_waybill_plugin_transport_api_list_message_free(batch);
  exports_waybill_plugin_transport_api_call_info_free(call);
  return delivered;
}

void exports_waybill_plugin_transport_api_health(call_t *call, exports_waybill_plugin_transport_api_health_report_t *ret) {
  failure_t failure;
  *ret = (exports_waybill_plugin_transport_api_health_report_t){.status = WAYBILL_PLUGIN_TYPES_HEALTH_READY};
  if (!ping(call, &failure)) {
    ret->status = WAYBILL_PLUGIN_TYPES_HEALTH_DOWN;
    transport_basic_string_dup_n(&ret->detail.val, (char *)failure.fault.reason.ptr, failure.fault.reason.len);
    ret->detail.is_some = true;
    exports_waybill_plugin_transport_api_plugin_error_free(&failure);
  }
  exports_waybill_plugin_transport_api_call_info_free(call);
}

bool exports_waybill_plugin_transport_api_tick(call_t *call, failure_t *err) {
  bool alive = ping(call, err);
  exports_waybill_plugin_transport_api_call_info_free(call);
  return alive;
}

void exports_waybill_plugin_transport_api_close(call_t *call) {
  if (connected) {
    // It is of no interest any more whether the ledger hears it.
    failure_t failure;
    text_t goodbye = {.bytes = "BYE\n", .length = 4};
    if (!write_all(call, &goodbye, &failure)) exports_waybill_plugin_transport_api_plugin_error_free(&failure);
  }
  if (connected) waybill_plugin_net_blocking_connection_drop_own(peer);
  connected = false;
  exports_waybill_plugin_transport_api_call_info_free(call);
}
