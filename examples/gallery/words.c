/* Counts words: the program that the gallery compiles. A hash table with open addressing, an arena for the
   strings, a heap sort for the answer. */
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LONGEST = 255, ARENA = 1 << 16, FIRST = 64 };

struct arena {
  struct arena *next;
  size_t used;
  char bytes[ARENA];
};

struct entry {
  const char *word;
  unsigned hash;
  unsigned count;
};

struct table {
  struct entry *entries;
  size_t capacity, used;
  struct arena *arena;
};

static void *wanted(void *memory) {
  if (!memory) {
    fputs("words: out of memory\n", stderr);
    exit(1);
  }
  return memory;
}

static const char *keep(struct table *table, const char *word, size_t length) {
  if (!table->arena || table->arena->used + length + 1 > ARENA) {
    struct arena *fresh = wanted(malloc(sizeof *fresh));
    fresh->next = table->arena;
    fresh->used = 0;
    table->arena = fresh;
  }
  char *kept = table->arena->bytes + table->arena->used;
  memcpy(kept, word, length + 1);
  table->arena->used += length + 1;
  return kept;
}

static unsigned hash_of(const char *word, size_t length) {
  unsigned hash = 2166136261u;
  for (size_t i = 0; i < length; i++) hash = (hash ^ (unsigned char)word[i]) * 16777619u;
  return hash;
}

static struct entry *find(struct entry *entries, size_t capacity, const char *word, unsigned hash) {
  size_t at = hash & (capacity - 1);
  while (entries[at].word && (entries[at].hash != hash || strcmp(entries[at].word, word)))
    at = (at + 1) & (capacity - 1);
  return entries + at;
}

static void grow(struct table *table) {
  size_t capacity = table->capacity ? 2 * table->capacity : FIRST;
  struct entry *entries = wanted(calloc(capacity, sizeof *entries));
  for (size_t i = 0; i < table->capacity; i++) {
    struct entry *old = table->entries + i;
    if (old->word) *find(entries, capacity, old->word, old->hash) = *old;
  }
  free(table->entries);
  table->entries = entries;
  table->capacity = capacity;
}

static void count(struct table *table, const char *word, size_t length) {
  if (4 * (table->used + 1) > 3 * table->capacity) grow(table);
  unsigned hash = hash_of(word, length);
  struct entry *entry = find(table->entries, table->capacity, word, hash);
  if (!entry->word) {
    *entry = (struct entry){keep(table, word, length), hash, 0};
    table->used++;
  }
  entry->count++;
}

static int before(const struct entry *a, const struct entry *b) {
  return a->count != b->count ? a->count > b->count : strcmp(a->word, b->word) < 0;
}

static void sift(struct entry *heap, size_t at, size_t size) {
  struct entry moved = heap[at];
  for (size_t child; (child = 2 * at + 1) < size; at = child) {
    if (child + 1 < size && before(heap + child, heap + child + 1)) child++;
    if (!before(&moved, heap + child)) break;
    heap[at] = heap[child];
  }
  heap[at] = moved;
}

int main(void) {
  struct table table = {0};
  char word[LONGEST + 1];
  size_t length = 0;
  for (int c; (c = getchar()) != EOF;) {
    if (isalpha(c) && length < LONGEST) {
      word[length++] = (char)tolower(c);
    } else if (length) {
      word[length] = '\0';
      count(&table, word, length);
      length = 0;
    }
  }
  size_t size = 0;
  for (size_t i = 0; i < table.capacity; i++)
    if (table.entries[i].word) table.entries[size++] = table.entries[i];
  for (size_t i = size / 2; i-- > 0;) sift(table.entries, i, size);
  for (size_t i = size; i-- > 1;) {
    struct entry last = table.entries[i];
    table.entries[i] = table.entries[0];
    table.entries[0] = last;
    sift(table.entries, 0, i);
  }
  for (size_t i = 0; i < size && i < 20; i++) printf("%7u %s\n", table.entries[i].count, table.entries[i].word);
  return 0;
}
