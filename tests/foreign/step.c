// A step in C that greets, and says so on stdout: by that its module imports WASI preview1.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "participant_basic.h"

static participant_basic_string_t string(const char *text) {
  participant_basic_string_t made;
  participant_basic_string_dup(&made, text);
  return made;
}

void exports_waybill_plugin_participant_api_steps(exports_waybill_plugin_participant_api_list_step_info_t *ret) {
  ret->ptr = calloc(1, sizeof *ret->ptr);
  ret->len = 1;
  ret->ptr[0] = (exports_waybill_plugin_participant_api_step_info_t){
      .name = string("greet"), .compensates = true, .idempotent = true, .summary = string("Greets.")};
}

bool exports_waybill_plugin_participant_api_open(exports_waybill_plugin_participant_api_call_info_t *call, exports_waybill_plugin_participant_api_open_args_t *args,
                                                 exports_waybill_plugin_participant_api_opened_t *ret, exports_waybill_plugin_participant_api_plugin_error_t *err) {
  (void)err;
  *ret = (exports_waybill_plugin_participant_api_opened_t){.max_concurrent_calls = 1};
  exports_waybill_plugin_participant_api_open_args_free(args);
  exports_waybill_plugin_participant_api_call_info_free(call);
  return true;
}

bool exports_waybill_plugin_participant_api_execute(exports_waybill_plugin_participant_api_call_info_t *call, participant_basic_string_t *name,
                                                    exports_waybill_plugin_participant_api_step_context_t *context, participant_basic_list_u8_t *input,
                                                    exports_waybill_plugin_participant_api_step_done_t *ret,
                                                    exports_waybill_plugin_participant_api_step_error_t *err) {
  (void)err;
  // JSON that was given, with a greeting around it.
  printf("greeting %zu bytes\n", input->len);
  fflush(stdout);
  participant_basic_list_u8_t data = {malloc(input->len + 16), input->len + 11};
  memcpy(data.ptr, "{\"hello\":  ", 10);
  memcpy(data.ptr + 10, input->ptr, input->len);
  data.ptr[10 + input->len] = '}';
  *ret = (exports_waybill_plugin_participant_api_step_done_t){.tag = EXPORTS_WAYBILL_PLUGIN_PARTICIPANT_API_STEP_DONE_OUTPUT, .val.output.data = data};
  participant_basic_list_u8_free(input);
  exports_waybill_plugin_participant_api_step_context_free(context);
  participant_basic_string_free(name);
  exports_waybill_plugin_participant_api_call_info_free(call);
  return true;
}

bool exports_waybill_plugin_participant_api_compensate(exports_waybill_plugin_participant_api_call_info_t *call, participant_basic_string_t *name,
                                                       exports_waybill_plugin_participant_api_step_context_t *context, participant_basic_list_u8_t *input,
                                                       participant_basic_list_u8_t *maybe_output,
                                                       exports_waybill_plugin_participant_api_step_output_t *ret,
                                                       exports_waybill_plugin_participant_api_step_error_t *err) {
  (void)err;
  *ret = (exports_waybill_plugin_participant_api_step_output_t){0};
  participant_basic_string_t none;
  participant_basic_string_dup(&none, "null");
  ret->data = (participant_basic_list_u8_t){none.ptr, none.len};
  if (maybe_output != NULL) participant_basic_list_u8_free(maybe_output);
  participant_basic_list_u8_free(input);
  exports_waybill_plugin_participant_api_step_context_free(context);
  participant_basic_string_free(name);
  exports_waybill_plugin_participant_api_call_info_free(call);
  return true;
}

void exports_waybill_plugin_participant_api_close(exports_waybill_plugin_participant_api_call_info_t *call) {
  exports_waybill_plugin_participant_api_call_info_free(call);
}
