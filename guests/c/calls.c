/* Makes the host calls that the other guests do not make. Each request but LOG and PRINT is answered
 * with its kind + 100. */

#include "sinew.h"

enum {
    LOG = 1,       /* payload: the level, u8, and the text */
    PRINT = 2,     /* payload: the text */
    SELF = 3,      /* reply: the id, u64 */
    TIME = 4,      /* reply: the milliseconds, i64 */
    SEND = 5,      /* payload: struct send and the payload to send; reply: the result, i32 */
    STOP = 6,      /* payload: an id, u64; reply: the result, i32 */
    SPAWN = 7,     /* payload: a module; reply: the id, u64 */
    READ_FILE = 8, /* payload: a path; reply: the result, i32, the full size, u32, and the data */
    REPLY = 100,
};

/* The room for the data of a file: small, so that tests can exceed it. */
#define FILE_CAPACITY 64
#define MAILBOX_CAPACITY 16

struct send {
    actor_id to;
    uint32_t kind;
    uint8_t payload[];
};

#define SEND_HEADER_SIZE offsetof(struct send, payload)

_Static_assert(SEND_HEADER_SIZE == 12, "tests write it by offset");

static struct {
    int32_t result;
    uint32_t size;
    uint8_t data[FILE_CAPACITY];
} file;

EXPORT(handle_message)
int32_t handle_message(uint32_t kind, actor_id source, const void *payload, uint32_t size) {
    const char *text = payload;
    switch (kind) {
    case LOG:
        if (size > 0) {
            mk_log(text[0], text + 1, size - 1);
        }
        break;
    case PRINT:
        mk_print(text, size);
        break;
    case SELF: {
        actor_id self = mk_self();
        mk_send(source, REPLY + kind, &self, sizeof self);
        break;
    }
    case TIME: {
        int64_t now = mk_time_ms();
        mk_send(source, REPLY + kind, &now, sizeof now);
        break;
    }
    case SEND:
        if (size >= SEND_HEADER_SIZE) {
            const struct send *send = payload;
            int32_t result = mk_send(send->to, send->kind, send->payload, size - SEND_HEADER_SIZE);
            mk_send_u32(source, REPLY + kind, (uint32_t)result);
        }
        break;
    case STOP:
        if (size == sizeof(actor_id)) {
            mk_send_u32(source, REPLY + kind, (uint32_t)mk_stop(*(const actor_id *)payload));
        }
        break;
    case SPAWN: {
        actor_id child = mk_spawn_wasm(payload, size, MAILBOX_CAPACITY);
        mk_send(source, REPLY + kind, &child, sizeof child);
        break;
    }
    case READ_FILE: {
        file.size = 0;
        file.result = mk_read_file(text, size, file.data, FILE_CAPACITY, &file.size);
        uint32_t copied = file.result != 0 ? 0 : file.size < FILE_CAPACITY ? file.size : FILE_CAPACITY;
        mk_send(source, REPLY + kind, &file, offsetof(__typeof__(file), data) + copied);
        break;
    }
    default:
        break;
    }
    return 1;
}
