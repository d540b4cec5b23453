// Bytes that grow, and the few forms that the ledger's language has. Pure.
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct {
  char *bytes;
  size_t length;
  size_t room;
} text_t;

void text_add(text_t *text, const void *bytes, size_t length);
void text_free(text_t *text);
// As a C string, until something is added.
const char *text_c(text_t *text);
// A text as one word: what would end it is written as %XX.
void text_word(text_t *text, const uint8_t *bytes, size_t length);
// Takes the first whole line away; NULL while there is none. It has to be freed.
char *text_line(text_t *text);
// The same with a question mark for each byte that isn't ASCII: a string of the contract is UTF-8. It has to be freed.
char *text_utf8(const char *text);
// A string member of a flat JSON document without escapes. It has to be freed.
char *text_member(const uint8_t *json, size_t length, const char *name);
