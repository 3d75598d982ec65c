/* Host calls and message kinds of a Sinew guest, for C.
 *
 * A guest exports its memory and a message handler:
 *
 *     EXPORT(handle_message)
 *     int32_t handle_message(uint32_t kind, actor_id source, const void *payload, uint32_t size);
 *
 * The handler returns non-zero to stay and 0 to stop. `payload` is null when `size` is 0, and valid
 * until the handler returns.
 *
 * Pointers that a call writes a single value through may be null; the value is then not written. All
 * numbers in payloads are little-endian. A call that blocks suspends the guest only. It fails in a
 * guest that has no stack of its own (class NONE), and when a reload interrupts it.
 */
#ifndef SINEW_H
#define SINEW_H

#include <stddef.h>
#include <stdint.h>

#define EXPORT(name) __attribute__((export_name(#name)))
#define SINEW_IMPORT(name) __attribute__((import_module("env"), import_name(#name)))

/* The id of an actor; 0 is the id of none. */
typedef uint64_t actor_id;

/* Messages and the guest itself. */

/* Sends a message and never blocks. Returns 1, or 0 if it was not delivered: no such actor, no grant,
 * or a full mailbox. */
SINEW_IMPORT(mk_send)
int32_t mk_send(actor_id to, uint32_t kind, const void *payload, uint32_t size);

/* Sends a message with a payload of four bytes; needs no memory. Returns as `mk_send`. */
SINEW_IMPORT(mk_send_u32)
int32_t mk_send_u32(actor_id to, uint32_t kind, uint32_t value);

/* Returns the guest's own id. */
SINEW_IMPORT(mk_self)
actor_id mk_self(void);

/* Returns the time of day, in milliseconds since 1970. */
SINEW_IMPORT(mk_time_ms)
int64_t mk_time_ms(void);

/* Blocking calls. */

/* Sleeps for `ms` milliseconds; messages wait meanwhile. 0 and less yields. Returns 0, or -1 if the
 * guest cannot block. */
SINEW_IMPORT(mk_sleep_ms)
int32_t mk_sleep_ms(int32_t ms);

/* Waits for the next message. Copies at most `capacity` bytes of its payload and writes the full size
 * through `size`. Returns 0, or -1 if the guest cannot block. */
SINEW_IMPORT(mk_recv)
int32_t mk_recv(uint32_t *kind, void *buffer, uint32_t capacity, uint32_t *size);

/* Waits as `mk_recv` does, and also writes the sender's id. */
SINEW_IMPORT(mk_recv_full)
int32_t mk_recv_full(uint32_t *kind, void *buffer, uint32_t capacity, uint32_t *size, actor_id *source);

/* Waits as `mk_recv_full` does, for at most `timeout_ms`: 0 looks once, less than 0 waits without a
 * limit. Returns 0, -1 if the guest cannot block, or MK_TIMEOUT. */
SINEW_IMPORT(mk_recv_timeout)
int32_t mk_recv_timeout(uint32_t *kind, void *buffer, uint32_t capacity, uint32_t *size, actor_id *source,
                        int32_t timeout_ms);

/* The result of `mk_recv_timeout` on timeout; it then writes zeros. */
#define MK_TIMEOUT (-2)

/* Output. */

enum log_level { LOG_DEBUG = 0, LOG_INFO = 1, LOG_WARN = 2, LOG_ERROR = 3 };

/* Writes a line to the log, cut after 255 bytes. */
SINEW_IMPORT(mk_log)
void mk_log(int32_t level, const char *text, uint32_t size);

/* Writes to the guest's standard output. */
SINEW_IMPORT(mk_print)
void mk_print(const char *text, uint32_t size);

/* Other actors and names. */

/* Spawns the module of `size` bytes with a mailbox of `mailbox` messages. Returns its id, or 0. */
SINEW_IMPORT(mk_spawn_wasm)
actor_id mk_spawn_wasm(const void *module, uint32_t size, uint32_t mailbox);

/* Stops an actor. Returns 0, also if it has ended before, or -1 without the grant. */
SINEW_IMPORT(mk_stop)
int32_t mk_stop(actor_id actor);

/* Writes the ids of at most `capacity` actors, and through `count` how many it wrote. Returns 0 or -1. */
SINEW_IMPORT(mk_list_actors)
int32_t mk_list_actors(actor_id *ids, int32_t capacity, uint32_t *count);

/* Registers the guest under a name, or under a path that starts with `/`. Returns 0 or -1. */
SINEW_IMPORT(mk_register)
int32_t mk_register(const char *name, uint32_t size);

/* Returns the id of the actor with a name or path, or 0. */
SINEW_IMPORT(mk_lookup)
actor_id mk_lookup(const char *name, uint32_t size);

/* Copies the name of an actor, at most `capacity` - 1 bytes and a NUL. Returns the full length, 0 if
 * it has no name. */
SINEW_IMPORT(mk_reverse_lookup)
int32_t mk_reverse_lookup(actor_id actor, char *buffer, uint32_t capacity);

/* Copies lines `path=id` for the paths that start with `prefix`, as far as they fit, and writes the
 * full size through `size`. Returns 0. */
SINEW_IMPORT(mk_ns_list)
int32_t mk_ns_list(const char *prefix, uint32_t prefix_size, char *buffer, uint32_t capacity, uint32_t *size);

/* Copies the node's name as far as it fits, without a NUL. Returns its full length. */
SINEW_IMPORT(mk_node_name)
int32_t mk_node_name(char *buffer, uint32_t capacity);

/* Files, state, HTTP. */

/* Reads a file below the granted root, as much as fits, and writes its full size through `size`.
 * Returns 0 or -1. */
SINEW_IMPORT(mk_read_file)
int32_t mk_read_file(const char *path, uint32_t path_size, void *buffer, uint32_t capacity, uint32_t *size);

/* Stores `size` bytes under `key`; they outlive the guest. Returns 0 or -1. */
SINEW_IMPORT(mk_save_state)
int32_t mk_save_state(const char *key, uint32_t key_size, const void *data, uint32_t size);

/* Loads what is stored under `key`. Returns the number of bytes copied, at most `capacity`, or -1. */
SINEW_IMPORT(mk_load_state)
int32_t mk_load_state(const char *key, uint32_t key_size, void *buffer, uint32_t capacity);

/* Gets a URL and blocks until the answer is there. Copies as much of the body as fits and writes its
 * full size through `size`. Returns 0, or -1 with a status and size of 0. A host without HTTP refuses
 * a module that imports this call. */
SINEW_IMPORT(mk_http_get)
int32_t mk_http_get(const char *url, uint32_t url_size, void *buffer, uint32_t capacity, uint32_t *status,
                    uint32_t *size);

/* Kinds from MSG_SYSTEM_START on are the system's; all others are free for actors. */

#define MSG_SYSTEM_START 0xFF000000u
#define MSG_TIMER 0xFF000001u            /* struct timer_payload */
#define MSG_FD_EVENT 0xFF000002u         /* struct fd_event_payload */
#define MSG_LOG 0xFF000003u
#define MSG_HTTP_RESPONSE 0xFF000004u
#define MSG_HTTP_ERROR 0xFF000005u
#define MSG_SSE_OPEN 0xFF000006u
#define MSG_SSE_EVENT 0xFF000007u
#define MSG_SSE_CLOSED 0xFF000008u
#define MSG_WS_OPEN 0xFF000009u
#define MSG_WS_MESSAGE 0xFF00000Au
#define MSG_WS_CLOSED 0xFF00000Bu
#define MSG_WS_ERROR 0xFF00000Cu
#define MSG_HTTP_REQUEST 0xFF00000Du
#define MSG_HTTP_LISTEN_ERROR 0xFF00000Eu
#define MSG_HTTP_CONN_CLOSED 0xFF00000Fu
#define MSG_CHILD_EXIT 0xFF000010u       /* struct child_exit_payload */
#define MSG_NS_REGISTER 0xFF000014u
#define MSG_NS_LOOKUP 0xFF000015u
#define MSG_NS_LIST 0xFF000016u
#define MSG_NS_MOUNT 0xFF000017u
#define MSG_NS_UMOUNT 0xFF000018u
#define MSG_NS_REPLY 0xFF000019u
#define MSG_NS_NOTIFY 0xFF00001Au
#define MSG_CAPS_REQUEST 0xFF00001Du
#define MSG_CAPS_REPLY 0xFF00001Eu       /* lines `key=value` */
#define MSG_EXIT 0xFF0000C0u             /* a linked actor ended */
#define MSG_DOWN 0xFF0000C1u             /* a monitored actor ended */
#define MSG_STOP 0xFF0000C2u             /* finish and end */

struct timer_payload {
    uint32_t id;
    uint64_t expirations;
};

struct fd_event_payload {
    int32_t fd;
    uint32_t events;
};

struct child_exit_payload {
    actor_id child;
    uint8_t exit_reason;
};

_Static_assert(sizeof(struct timer_payload) == 16, "the layout of the wire");
_Static_assert(sizeof(struct fd_event_payload) == 8, "the layout of the wire");
_Static_assert(sizeof(struct child_exit_payload) == 16, "the layout of the wire");

#endif
