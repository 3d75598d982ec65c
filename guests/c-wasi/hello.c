/* An ordinary program: arguments, environment, clock, random bytes, files, exit code.
 *
 *     hello [EXIT_CODE|panic] [DIRECTORY]
 *
 * hello.c, hello.rs and hello.go print the same lines. DIRECTORY defaults to "/".
 */

#include <dirent.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define MAX_ENTRIES 32

static void join(char *path, size_t capacity, const char *directory, const char *name) {
    const char *separator = directory[strlen(directory) - 1] == '/' ? "" : "/";
    snprintf(path, capacity, "%s%s%s", directory, separator, name);
}

static void print_clock(void) {
    struct timespec wall, start, end;
    clock_gettime(CLOCK_REALTIME, &wall);
    clock_gettime(CLOCK_MONOTONIC, &start);
    clock_gettime(CLOCK_MONOTONIC, &end);
    int64_t elapsed_ns = (int64_t)(end.tv_sec - start.tv_sec) * 1000000000 + (end.tv_nsec - start.tv_nsec);
    printf("clock: %lld\n", (long long)wall.tv_sec * 1000 + wall.tv_nsec / 1000000);
    printf("monotonic: %s\n", elapsed_ns >= 0 ? "yes" : "no");
}

static void print_random(void) {
    uint8_t bytes[8];
    if (getentropy(bytes, sizeof bytes) != 0) {
        puts("random: failed");
        return;
    }
    printf("random: ");
    for (size_t at = 0; at < sizeof bytes; at++) {
        printf("%02x", bytes[at]);
    }
    putchar('\n');
}

static void read_input(const char *directory) {
    char path[256], text[256];
    join(path, sizeof path, directory, "in.txt");
    FILE *file = fopen(path, "r");
    if (file == NULL) {
        puts("in.txt: failed");
        return;
    }
    size_t size = fread(text, 1, sizeof text, file);
    fclose(file);
    while (size > 0 && text[size - 1] == '\n') {
        size--;
    }
    printf("in.txt: %.*s\n", (int)size, text);
}

static void write_output(const char *directory) {
    char path[256];
    join(path, sizeof path, directory, "out.txt");
    FILE *file = fopen(path, "w");
    int written = file != NULL && fputs("written by hello\n", file) >= 0;
    if (file != NULL && fclose(file) != 0) {
        written = 0;
    }
    printf("out.txt: %s\n", written ? "written" : "failed");
}

static int by_name(const void *a, const void *b) {
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static void list(const char *directory) {
    DIR *entries = opendir(directory);
    if (entries == NULL) {
        puts("entries: failed");
        return;
    }
    char *names[MAX_ENTRIES];
    size_t count = 0;
    struct dirent *entry;
    while (count < MAX_ENTRIES && (entry = readdir(entries)) != NULL) {
        if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0) {
            names[count++] = strdup(entry->d_name);
        }
    }
    closedir(entries);
    qsort(names, count, sizeof names[0], by_name);
    for (size_t at = 0; at < count; at++) {
        printf("entry: %s\n", names[at]);
        free(names[at]);
    }
}

int main(int argc, char **argv) {
    for (int at = 0; at < argc; at++) {
        printf("argument %d: %s\n", at, argv[at]);
    }
    const char *variable = getenv("SINEW_GUEST");
    printf("SINEW_GUEST: %s\n", variable == NULL ? "not set" : variable);
    print_clock();
    print_random();
    const char *directory = argc > 2 && argv[2][0] != '\0' ? argv[2] : "/";
    read_input(directory);
    write_output(directory);
    list(directory);
    if (argc > 1 && strcmp(argv[1], "panic") == 0) {
        fflush(stdout);
        fputs("panic: asked to\n", stderr);
        abort();
    }
    fputs("hello ends\n", stderr);
    return argc > 1 ? atoi(argv[1]) : 0;
}
