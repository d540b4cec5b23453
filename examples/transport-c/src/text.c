#include "text.h"

#include <stdlib.h>
#include <string.h>

static char *copy(const char *bytes, size_t length) {
  char *made = malloc(length + 1);
  if (made == NULL) abort();
  if (length > 0) memcpy(made, bytes, length);
  made[length] = 0;
  return made;
}

void text_add(text_t *text, const void *bytes, size_t length) {
  if (text->room - text->length < length + 1) {
    text->room = 2 * text->room + length + 1;
    text->bytes = realloc(text->bytes, text->room);
    if (text->bytes == NULL) abort();
  }
  if (length > 0) memcpy(text->bytes + text->length, bytes, length);
  text->length += length;
}

void text_free(text_t *text) {
  free(text->bytes);
  *text = (text_t){0};
}

const char *text_c(text_t *text) {
  text_add(text, "", 1);
  text->length -= 1;
  return text->bytes;
}

void text_word(text_t *text, const uint8_t *bytes, size_t length) {
  static const char digits[] = "0123456789ABCDEF";
  for (size_t at = 0; at < length; at++) {
    uint8_t byte = bytes[at];
    if (byte <= ' ' || byte == 0x7f || byte == '%') {
      char escaped[3] = {'%', digits[byte >> 4], digits[byte & 15]};
      text_add(text, escaped, sizeof escaped);
    } else {
      text_add(text, &byte, 1);
    }
  }
}

char *text_line(text_t *text) {
  char *end = text->length == 0 ? NULL : memchr(text->bytes, '\n', text->length);
  if (end == NULL) return NULL;
  size_t length = end - text->bytes;
  size_t shown = length > 0 && text->bytes[length - 1] == '\r' ? length - 1 : length;
  char *raw = copy(text->bytes, shown);
  text->length -= length + 1;
  memmove(text->bytes, end + 1, text->length);
  char *line = text_utf8(raw);
  free(raw);
  return line;
}

char *text_utf8(const char *text) {
  char *made = copy(text, strlen(text));
  for (char *at = made; *at != 0; at++) {
    if ((unsigned char)*at >= 0x80) *at = '?';
  }
  return made;
}

char *text_member(const uint8_t *json, size_t length, const char *name) {
  char *document = copy((const char *)json, length);
  char *value = NULL;
  char *found = strstr(document, name);
  char *start = found == NULL ? NULL : strchr(found + strlen(name), '"');
  char *end = start == NULL ? NULL : strchr(start + 1, '"');
  if (end != NULL) value = copy(start + 1, end - start - 1);
  free(document);
  return value == NULL ? copy("", 0) : value;
}
