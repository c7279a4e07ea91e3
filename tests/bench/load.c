/* The load of the benchmarks: all callers and all backends of a measurement, in one process on one core.
 *
 *   load run SPEC                    play the dialects that SPEC describes (tests/bench/dialects.py writes it)
 *   load relay FRAMING ADDRESS FRAMING ADDRESS   copy messages between two framings; this is the peer "relay in C"
 *
 * Every token is compared with the text that was sent, so a lost, doubled, swapped or misrouted token ends the run.
 * A session must end exactly once, with the hash of its whole text. The result is one line of JSON on stdout.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

enum { LINE, WS, ZMTP };             /* framings */
enum { CALLER, BACKEND, ROLES };     /* roles */
enum { READY, BEGIN, TOKEN, END, WHOLE, FAIL, REPLY };
enum { VARS = 8, RULES = 16, TEMPLATES = 8, CHANNELS = 2, VALUE = 200 };
static const char *ACTIONS[] = {"ready", "begin", "token", "end", "whole", "fail", "reply"};
static const double PATIENCE = 15; /* seconds without any progress after which the run has failed */

typedef struct { char *at; size_t len, cap; } buffer;
typedef struct { int channel; char *text; } template;
typedef struct { int action, var[VARS], vars; char *marks[3], *key, *take[VARS]; template reply[TEMPLATES]; int replies; } rule;
typedef struct {
    int framing, opens, rules, tokens, finishes, says, addresses;
    template open[TEMPLATES], token[TEMPLATES], finish[TEMPLATES], say[TEMPLATES];
    rule rule[RULES];
    char **address;
} dialect;

struct session;
typedef struct peer {
    int role, opened;
    struct conn *channel[CHANNELS];
    char var[VARS][VALUE];
    struct session *session;
} peer;
typedef struct conn {
    int fd, framing, channel, up, writable, server, listening;
    peer *peer;          /* of a run */
    struct conn *other;  /* of a relay */
    buffer in, out;
} conn;
typedef struct session {
    int number, asked, begun, ended, turns;
    long sent, seen, offset, frames;
    uint64_t hash, whole;
    uint64_t *sent_at;
    peer *caller, *backend;
} session;

static dialect dialects[ROLES];
static session *sessions;
static int count, relaying, epoll, pid, block = 32, turns = 1;
static long want;
static double rate;
static long delivered, frames_seen, ready, begun, ended;
static double progress;
static uint32_t *latency;
static uint8_t *latency_steady;
static long latencies, latency_room;
static int steady_window;
static char *relay_framing[2], *relay_address, *bearer;

static void fail(const char *form, ...) {
    va_list more;
    va_start(more, form);
    fputs("load: ", stderr);
    vfprintf(stderr, form, more);
    fputc('\n', stderr);
    exit(1);
}

static uint64_t now_ns(void) {
    struct timespec at;
    clock_gettime(CLOCK_MONOTONIC, &at);
    return (uint64_t)at.tv_sec * 1000000000u + (uint64_t)at.tv_nsec;
}
static double now(void) { return (double)now_ns() / 1e9; }

static void put(buffer *to, const void *data, size_t len) {
    if (to->len + len > to->cap) {
        to->cap = (to->len + len) * 2 + 4096;
        to->at = realloc(to->at, to->cap);
        if (!to->at) fail("out of memory");
    }
    memcpy(to->at + to->len, data, len);
    to->len += len;
}
static void drop(buffer *from, size_t len) {
    from->len -= len;
    memmove(from->at, from->at + len, from->len);
    if (!from->len && from->cap > 65536) { free(from->at); memset(from, 0, sizeof *from); }
}

/* -- what a token says ------------------------------------------------------------------------------------------ */

static const char *WORDS[] = {"The", " quick", " brown", " fox", " jumps", " over", " the", " lazy", " dog", ",", " said",
    " \"", "D", "ragon", "\"", " \xe2\x80\x94", " and", " no", " one", " knew", " why", ".", "\n\n", "It", " is", " a",
    " caf", "\xc3\xa9", " in", " Paris", "!", " "};

/* Write token `i` of session `n`: a word of ordinary output; every eighth is a number that occurs nowhere else. */
static size_t word(int n, long i, char *to) {
    if (i % 8 == 7) {
        char digits[24], *end = digits + sizeof digits, *at = end;
        long left = i * 8192 + n;
        *--at = ' ';
        do *--at = (char)('0' + left % 10); while (left /= 10);
        memcpy(to, at, (size_t)(end - at));
        return (size_t)(end - at);
    }
    const char *text = WORDS[i % 32];
    size_t len = strlen(text);
    memcpy(to, text, len);
    return len;
}

static void put_escaped(buffer *to, const char *text, size_t len) {
    for (size_t i = 0; i < len; i++) {
        char c = text[i];
        if (c == '"' || c == '\\') { put(to, "\\", 1); put(to, &c, 1); }
        else if (c == '\n') put(to, "\\n", 2);
        else put(to, &c, 1);
    }
}

/* Decode the JSON string after the opening quote at `at`; return what follows it. */
static const char *unescape(const char *at, const char *end, buffer *to) {
    to->len = 0;
    while (at < end && *at != '"') {
        const char *plain = at;
        while (at < end && *at != '"' && *at != '\\') at++;
        put(to, plain, (size_t)(at - plain));
        if (at >= end || *at == '"') break;
        char c = at[1];
        at += 2;
        if (c == 'n') put(to, "\n", 1);
        else if (c == 'u') {
            char digits[5] = {at[0], at[1], at[2], at[3], 0};
            unsigned code = (unsigned)strtoul(digits, NULL, 16);
            char bytes[3] = {(char)(0xe0 | code >> 12), (char)(0x80 | (code >> 6 & 0x3f)), (char)(0x80 | (code & 0x3f))};
            if (code < 0x80) bytes[0] = (char)code;
            else if (code < 0x800) { bytes[0] = (char)(0xc0 | code >> 6); bytes[1] = (char)(0x80 | (code & 0x3f)); }
            put(to, bytes, code < 0x80 ? 1 : code < 0x800 ? 2 : 3);
            at += 4;
        } else put(to, &c, 1);
    }
    return at;
}

static uint64_t hashed(uint64_t hash, const char *text, size_t len) {
    for (size_t i = 0; i < len; i++) hash = (hash ^ (uint8_t)text[i]) * 1099511628211u;
    return hash;
}
static const uint64_t EMPTY = 14695981039346656037u;

/* -- connections ------------------------------------------------------------------------------------------------ */

static void watch(conn *c, int writing) {
    struct epoll_event event = {.events = EPOLLIN | (writing ? EPOLLOUT : 0u), .data.ptr = c};
    if (epoll_ctl(epoll, c->writable < 0 ? EPOLL_CTL_ADD : EPOLL_CTL_MOD, c->fd, &event)) fail("epoll: %s", strerror(errno));
    c->writable = !writing;
}

static void flush_conn(conn *c) {
    while (c->out.len) {
        ssize_t wrote = write(c->fd, c->out.at, c->out.len);
        if (wrote < 0) {
            if (errno == EPIPE || errno == ECONNRESET) { c->out.len = 0; return; } /* the next read tells what it means */
            if (errno != EAGAIN) fail("write: %s", strerror(errno));
            if (c->writable) watch(c, 1);
            return;
        }
        drop(&c->out, (size_t)wrote);
    }
    if (!c->writable) watch(c, 0);
}

static conn *add_conn(int fd, int framing) {
    conn *c = calloc(1, sizeof *c);
    c->fd = fd;
    c->framing = framing;
    c->writable = -1;
    fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK);
    int one = 1;
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    watch(c, 0);
    return c;
}

/* Return a socket at `unix:PATH` or `tcp:PORT` of this machine, listening or connected. */
static int socket_at(const char *address, int listening) {
    struct sockaddr_un path = {.sun_family = AF_UNIX};
    struct sockaddr_in port = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int is_unix = !strncmp(address, "unix:", 5), fd = socket(is_unix ? AF_UNIX : AF_INET, SOCK_STREAM, 0), one = 1;
    struct sockaddr *to = is_unix ? (struct sockaddr *)&path : (struct sockaddr *)&port;
    socklen_t len = is_unix ? sizeof path : sizeof port;
    if (fd < 0) fail("socket: %s", strerror(errno));
    if (is_unix) snprintf(path.sun_path, sizeof path.sun_path, "%s", address + 5);
    else port.sin_port = htons((uint16_t)atoi(address + 4));
    if (!listening) {
        if (connect(fd, to, len)) fail("connect to %s: %s", address, strerror(errno));
        return fd;
    }
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
    if (bind(fd, to, len) || listen(fd, 4096)) fail("listen on %s: %s", address, strerror(errno));
    getsockname(fd, (struct sockaddr *)&port, &len);
    if (is_unix) fprintf(stderr, "listening %s\n", address);
    else fprintf(stderr, "listening tcp:%d\n", ntohs(port.sin_port));
    return fd;
}

/* -- framings --------------------------------------------------------------------------------------------------- */

static void put_frame(conn *c, const char *text, size_t len) {
    uint8_t head[14];
    size_t n = 0;
    if (c->framing == WS) {
        uint8_t masked = c->server ? 0 : 0x80;
        head[n++] = 0x81;
        if (len < 126) head[n++] = masked | (uint8_t)len;
        else if (len < 65536) { head[n++] = masked | 126; head[n++] = (uint8_t)(len >> 8); head[n++] = (uint8_t)len; }
        else { head[n++] = masked | 127; for (int i = 7; i >= 0; i--) head[n++] = (uint8_t)(len >> 8 * i); }
        for (int i = 0; masked && i < 4; i++) head[n++] = 0; /* the mask of zeros is as dear to the reader as another */
    } else if (c->framing == ZMTP) {
        if (c->channel) { head[n++] = 1; head[n++] = 0; } /* the empty delimiter before a call and a reply */
        if (len < 256) { head[n++] = 0; head[n++] = (uint8_t)len; }
        else { head[n++] = 2; for (int i = 7; i >= 0; i--) head[n++] = (uint8_t)(len >> 8 * i); }
    }
    put(&c->out, head, n);
    put(&c->out, text, len);
    if (c->framing == LINE) put(&c->out, "\n", 1);
}

static void sha1(const uint8_t *data, size_t len, uint8_t *to) {
    uint32_t h[5] = {0x67452301, 0xefcdab89, 0x98badcfe, 0x10325476, 0xc3d2e1f0}, w[80];
    uint8_t padded[192] = {0};
    size_t size = (len + 72) / 64 * 64;
    memcpy(padded, data, len);
    padded[len] = 0x80;
    for (int i = 0; i < 4; i++) padded[size - 1 - (size_t)i] = (uint8_t)(len * 8 >> 8 * i);
    for (size_t at = 0; at < size; at += 64) {
        for (int i = 0; i < 16; i++) { uint32_t v; memcpy(&v, padded + at + 4 * i, 4); w[i] = ntohl(v); }
        for (int i = 16; i < 80; i++) { uint32_t v = w[i-3] ^ w[i-8] ^ w[i-14] ^ w[i-16]; w[i] = v << 1 | v >> 31; }
        uint32_t a = h[0], b = h[1], c = h[2], d = h[3], e = h[4];
        for (int i = 0; i < 80; i++) {
            uint32_t f = i < 20 ? (b & c) | (~b & d) : i < 40 ? b ^ c ^ d : i < 60 ? (b & c) | (b & d) | (c & d) : b ^ c ^ d;
            uint32_t k = i < 20 ? 0x5a827999 : i < 40 ? 0x6ed9eba1 : i < 60 ? 0x8f1bbcdc : 0xca62c1d6;
            uint32_t v = (a << 5 | a >> 27) + f + e + k + w[i];
            e = d; d = c; c = b << 30 | b >> 2; b = a; a = v;
        }
        h[0] += a; h[1] += b; h[2] += c; h[3] += d; h[4] += e;
    }
    for (int i = 0; i < 20; i++) to[i] = (uint8_t)(h[i / 4] >> 8 * (3 - i % 4));
}

/* Begin a connection: a client of WebSocket asks, both ends of ZMTP greet, lines need nothing. */
static void begin_conn(conn *c) {
    if (c->framing == LINE) c->up = 1;
    else if (c->framing == WS && !c->server) {
        const char *ask = "GET /ws HTTP/1.1\r\nHost: 127.0.0.1\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
            "Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n";
        put(&c->out, ask, strlen(ask));
        if (bearer) { put(&c->out, "Authorization: Bearer ", 22); put(&c->out, bearer, strlen(bearer)); put(&c->out, "\r\n", 2); }
        put(&c->out, "\r\n", 2);
    } else if (c->framing == ZMTP) {
        static const char *types[2][2] = {{"SUB", "DEALER"}, {"XPUB", "ROUTER"}};
        const char *type = types[c->server][c->channel];
        uint8_t greeting[64] = {0xff, 0, 0, 0, 0, 0, 0, 0, 1, 0x7f, 3, 0, 'N', 'U', 'L', 'L'};
        uint8_t head[] = {4, (uint8_t)(22 + strlen(type)), 5, 'R', 'E', 'A', 'D', 'Y', 11};
        uint8_t size[] = {0, 0, 0, (uint8_t)strlen(type)};
        put(&c->out, greeting, 64);
        put(&c->out, head, sizeof head);
        put(&c->out, "Socket-Type", 11);
        put(&c->out, size, 4);
        put(&c->out, type, strlen(type));
    }
    flush_conn(c);
}

/* Take the handshake from what was read; 0 as long as it is not complete. */
static int shake(conn *c) {
    if (c->framing == ZMTP) {
        if (c->in.len < 66 || c->in.len < 66 + (size_t)(uint8_t)c->in.at[65]) return 0;
        drop(&c->in, 66 + (size_t)(uint8_t)c->in.at[65]); /* its greeting and its READY */
        return 1;
    }
    char *end = memmem(c->in.at, c->in.len, "\r\n\r\n", 4);
    if (!end) return 0;
    *end = 0;
    if (!c->server && !strstr(c->in.at, " 101 ")) fail("the handshake was refused: %s", c->in.at);
    if (c->server) {
        static const char alphabet[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
        char *key = strcasestr(c->in.at, "sec-websocket-key: "), all[64], reply[160], proof[32] = {0};
        uint8_t sum[21] = {0};
        if (!key) fail("no WebSocket handshake: %s", c->in.at);
        snprintf(all, sizeof all, "%.24s258EAFA5-E914-47DA-95CA-C5AB0DC85B11", key + 19);
        sha1((uint8_t *)all, strlen(all), sum);
        for (int i = 0; i < 7; i++) {
            uint32_t v = (uint32_t)sum[3*i] << 16 | (uint32_t)sum[3*i+1] << 8 | sum[3*i+2];
            for (int j = 0; j < 4; j++) proof[4*i+j] = alphabet[v >> (18 - 6*j) & 63];
        }
        proof[27] = '=';
        snprintf(reply, sizeof reply, "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
            "Sec-WebSocket-Accept: %s\r\n\r\n", proof);
        put(&c->out, reply, strlen(reply));
        flush_conn(c);
    }
    drop(&c->in, (size_t)(end + 4 - c->in.at));
    return 1;
}

/* Return the length of the first frame, with its payload in `text` and `len`; 0 if it is not complete. */
static size_t next_frame(conn *c, char *at, size_t have, char **text, size_t *len) {
    *text = NULL;
    if (c->framing == LINE) {
        char *end = memchr(at, '\n', have);
        if (!end) return 0;
        *text = at;
        *len = (size_t)(end - at);
        return *len + 1;
    }
    if (have < 2) return 0;
    uint8_t *b = (uint8_t *)at;
    size_t n = 2, size = c->framing == WS ? b[1] & 0x7f : b[1];
    int wide = c->framing == WS ? size == 126 ? 2 : size == 127 ? 8 : 0 : b[0] & 2 ? 8 : 0;
    if (c->framing == ZMTP && wide) n = 1;
    if (wide) {
        if (have < n + (size_t)wide) return 0;
        size = 0;
        for (int i = 0; i < wide; i++) size = size << 8 | b[n++];
    }
    uint8_t *mask = c->framing == WS && b[1] & 0x80 ? b + n : NULL;
    if (mask) n += 4;
    if (have < n + size) return 0;
    for (size_t i = 0; mask && i < size; i++) at[n + i] ^= (char)mask[i & 3];
    if (c->framing == WS && (b[0] & 15) == 8) fail("the program closed a WebSocket: %.*s", (int)size, at + n + 2);
    if (c->framing == WS && (b[0] & 15) == 9) { put(&c->out, c->server ? "\x8a\0" : "\x8a\x80\0\0\0\0", c->server ? 2 : 6); flush_conn(c); }
    if (c->framing == ZMTP && b[0] & 4 && size > 6 && !memcmp(at + n, "\4PING", 5)) { put(&c->out, "\4\5\4PONG", 7); flush_conn(c); }
    int data = c->framing == WS ? (b[0] & 15) == 1 : !(b[0] & 5);
    if (data) { *text = at + n; *len = size; }
    return n + size;
}

/* -- playing a dialect ------------------------------------------------------------------------------------------- */

static buffer scratch, spoken;

/* Send a template of the dialect: $t is the token, $w the whole text, $n the session, $u a new uuid, $0 to $7 a value, $z a zero byte. */
static void put_template(peer *p, const template *said, const char *token, size_t token_len) {
    conn *c = p->channel[said->channel];
    if (!c) fail("a message for a channel that is not open: %s", said->text);
    scratch.len = 0;
    for (const char *at = said->text; *at; at++) {
        if (*at != '$') {
            const char *plain = at;
            while (*at && *at != '$') at++;
            put(&scratch, plain, (size_t)(at-- - plain));
            continue;
        }
        char made[64], what = *++at;
        if (what == 'z') { put(&scratch, "", 1); continue; }
        if (what == 't') put_escaped(&scratch, token, token_len);
        else if (what == 'n') put(&scratch, made, (size_t)sprintf(made, "%d", p->session->number));
        else if (what == 'u') {
            static unsigned unique;
            put(&scratch, made, (size_t)sprintf(made, "5e55%04x-%04x-4000-8000-%012x", pid & 0xffff, rand() & 0xffff, ++unique));
        } else if (what == 'w') {
            char text[32];
            for (long i = 0; p->session && i < p->session->sent; i++) put_escaped(&scratch, text, word(p->session->number, i, text));
        } else if (what >= '0' && what < '0' + VARS) put(&scratch, p->var[what - '0'], strlen(p->var[what - '0']));
        else fail("a template with $%c", what);
    }
    put_frame(c, scratch.at, scratch.len);
}

static void say(peer *p, const template *all, int many) {
    for (int i = 0; i < many; i++) put_template(p, all + i, "", 0);
    for (int i = 0; i < CHANNELS; i++) if (p->channel[i]) flush_conn(p->channel[i]);
}

/* Send the next tokens of a session in one write. */
static void send_tokens(session *s, int many) {
    dialect *d = &dialects[BACKEND];
    char text[32];
    while (many-- && s->sent < want) {
        size_t len = word(s->number, s->sent, text);
        for (int i = 0; i < d->tokens; i++) put_template(s->backend, &d->token[i], text, len);
        if (s->sent_at) s->sent_at[s->sent] = now_ns();
        s->sent++;
    }
    flush_conn(s->backend->channel[0]);
}
static void finish(session *s) {
    s->begun = 0;
    say(s->backend, dialects[BACKEND].finish, dialects[BACKEND].finishes);
}
static void ask(session *s) {
    s->sent = s->seen = s->offset = 0;
    s->hash = EMPTY;
    s->whole = 0;
    s->asked = 1;
    say(s->caller, dialects[CALLER].say, dialects[CALLER].says);
}

/* Compare what a caller got with what its backend sent. */
static void match(session *s, const char *text, size_t len) {
    char expected[32];
    s->hash = hashed(s->hash, text, len);
    frames_seen++;
    uint64_t at = s->sent_at ? now_ns() : 0;
    while (len) {
        size_t whole = word(s->number, s->seen, expected), left = whole - (size_t)s->offset, some = len < left ? len : left;
        if (s->seen >= s->sent || memcmp(text, expected + s->offset, some))
            fail("session %d: '%.*s' instead of token %ld '%.*s'", s->number, (int)len, text, s->seen, (int)whole, expected);
        text += some;
        len -= some;
        s->offset += (long)some;
        if ((size_t)s->offset < whole) break;
        if (s->sent_at && latencies < latency_room) {
            latency_steady[latencies] = (uint8_t)steady_window;
            latency[latencies++] = (uint32_t)((at - s->sent_at[s->seen]) / 100);
        }
        s->offset = 0;
        s->seen++;
        delivered++;
    }
}

static void take_value(peer *p, int var, const char *at, const char *end) {
    const char *from = at;
    if (at < end && *at == '"') for (at++; at < end && *at != '"'; at++) {}
    else for (; at < end && *at != ',' && *at != '}' && *at != ']'; at++) {}
    if (at < end && *at == '"') at++;
    if (at - from >= VALUE) fail("a value is too long");
    memcpy(p->var[var], from, (size_t)(at - from));
    p->var[var][at - from] = 0;
}

static const char *after(const char *text, size_t len, const char *key) {
    const char *at = memmem(text, len, key, strlen(key));
    if (!at) return NULL;
    at += strlen(key);
    while (at < text + len && *at == ' ') at++; /* json.dumps puts one after a colon */
    return at;
}

static void act(peer *p, rule *r, const char *text, size_t len) {
    session *s = p->session;
    const char *value = r->key ? after(text, len, r->key) : NULL;
    progress = now();
    for (int i = 0; i < r->vars; i++) {
        const char *at = after(text, len, r->take[i]);
        if (at) take_value(p, r->var[i], at, text + len);
    }
    if (r->action == FAIL) fail("session %d got %.*s", s ? s->number : -1, (int)len, text);
    if (r->action == BEGIN) {
        const char *mark = memmem(text, len, "session #", 9);
        int n = mark ? atoi(mark + 9) : -1;
        if (n < 0 || n >= count || sessions[n].begun || !sessions[n].asked) fail("a turn that nobody asked for: %.*s", (int)len, text);
        s = p->session = &sessions[n];
        s->backend = p;
        s->begun = 1;
        begun++;
    } else if (r->action == TOKEN || r->action == WHOLE || r->action == END) {
        if (value && *value == '[') value++;
        if (value && *value == '"') unescape(value + 1, text + len, &spoken);
        if (!s->asked) fail("session %d: after its end came %.*s", s->number, (int)len, text);
        if (r->action == TOKEN && value) match(s, spoken.at, spoken.len);
        if (r->action != TOKEN && value) s->whole = hashed(EMPTY, spoken.at, spoken.len);
        if (r->action == END) {
            if (s->seen != want || s->offset) fail("session %d: ended after %ld of %ld tokens: %.*s", s->number, s->seen, want, (int)len, text);
            if (s->whole && s->whole != s->hash) fail("session %d: another text at the end than in its tokens", s->number);
            s->asked = 0;
            s->ended++;
            ended++;
            if (s->ended < turns) ask(s);
        }
    } else if (r->action == READY && !p->opened++) ready++;
    say(p, r->reply, r->replies);
}

static void receive_message(conn *c, const char *text, size_t len) {
    dialect *d = &dialects[c->peer->role];
    for (int i = 0; i < d->rules; i++) {
        rule *r = &d->rule[i];
        int found = 1;
        for (int m = 0; m < 3 && r->marks[m] && found; m++) found = memmem(text, len, r->marks[m], strlen(r->marks[m])) != NULL;
        if (found) { act(c->peer, r, text, len); return; }
    }
}

static void receive(conn *c) {
    static char chunk[1 << 18];
    ssize_t got = read(c->fd, chunk, sizeof chunk);
    if (got < 0 && errno == EAGAIN) return;
    if (got <= 0) {
        if (relaying) { if (c->other) { shutdown(c->other->fd, SHUT_RDWR); c->other->other = NULL; } close(c->fd); return; }
        if (c->peer->role == BACKEND && !(c->peer->session && c->peer->session->asked)) { close(c->fd); return; }
        fail("the program closed the connection of a %s (session %d)", c->peer->role ? "backend" : "caller", c->peer->session ? c->peer->session->number : -1);
    }
    put(&c->in, chunk, (size_t)got);
    if (!c->up) {
        if (!shake(c)) return;
        c->up = 1;
        if (c->framing == ZMTP && !c->server && !c->channel) { put(&c->out, "\0\1\1", 3); flush_conn(c); } /* subscribe */
        if (c->peer && c->peer->role == CALLER && (c->framing != ZMTP || c->channel)) say(c->peer, dialects[CALLER].open, dialects[CALLER].opens);
        if (c->peer && c->peer->role == BACKEND) say(c->peer, dialects[BACKEND].open, dialects[BACKEND].opens);
    }
    size_t used = 0, size, len;
    char *text;
    while (used < c->in.len && (size = next_frame(c, c->in.at + used, c->in.len - used, &text, &len))) {
        if (text && relaying) put_frame(c->other, text, len);
        else if (text) receive_message(c, text, len);
        used += size;
    }
    drop(&c->in, used);
    if (relaying && c->other && c->other->up) flush_conn(c->other);
}

static void accept_conn(conn *listener) {
    int fd;
    while ((fd = accept(listener->fd, NULL, NULL)) >= 0) {
        conn *c = add_conn(fd, listener->framing);
        c->server = 1;
        c->channel = listener->channel;
        if (relaying) {
            c->other = add_conn(socket_at(relay_address, 0), strcmp(relay_framing[1], "ws") ? LINE : WS);
            c->other->other = c;
            begin_conn(c->other);
        } else {
            c->peer = listener->peer ? listener->peer : calloc(1, sizeof(peer));
            c->peer->role = BACKEND;
            c->peer->channel[c->channel] = c;
        }
        begin_conn(c);
        if (c->up && c->peer) say(c->peer, dialects[BACKEND].open, dialects[BACKEND].opens);
    }
}

static void step(int timeout_ms) {
    struct epoll_event events[256];
    int many = epoll_wait(epoll, events, 256, timeout_ms);
    for (int i = 0; i < many; i++) {
        conn *c = events[i].data.ptr;
        if (c->listening) accept_conn(c);
        else {
            if (events[i].events & EPOLLOUT) flush_conn(c);
            if (events[i].events & (EPOLLIN | EPOLLHUP | EPOLLERR)) receive(c);
        }
    }
    if (!relaying && now() - progress > PATIENCE)
        fail("no progress: %ld of %d open, %ld turns begun, %ld ended, %ld tokens", ready, count, begun, ended, delivered);
}
/* Like step, for a time that milliseconds are too coarse for. */
static void step_until(uint64_t ns) {
    struct pollfd ready_fd = {.fd = epoll, .events = POLLIN};
    struct timespec left = {(time_t)(ns / 1000000000u), (long)(ns % 1000000000u)};
    if (ppoll(&ready_fd, 1, &left, NULL) > 0) step(0);
    else if (now() - progress > PATIENCE) step(0);
}
static void settle(double seconds) { for (double end = now() + seconds; now() < end;) step(10); }

/* -- a run ------------------------------------------------------------------------------------------------------- */

static double cpu(void) {
    char path[300];
    double used = 0;
    snprintf(path, sizeof path, "/proc/%d/task", pid);
    DIR *tasks = opendir(path);
    if (!tasks) fail("the program under test is gone");
    for (struct dirent *task; (task = readdir(tasks));) {
        uint64_t ns = 0;
        snprintf(path, sizeof path, "/proc/%d/task/%.20s/schedstat", pid, task->d_name);
        FILE *file = task->d_name[0] == '.' ? NULL : fopen(path, "r");
        if (!file) continue;
        if (fscanf(file, "%lu", &ns) == 1) used += (double)ns / 1e9;
        fclose(file);
    }
    closedir(tasks);
    return used;
}
static double memory(void) {
    char path[64];
    long pages = 0;
    snprintf(path, sizeof path, "/proc/%d/statm", pid);
    FILE *file = fopen(path, "r");
    if (!file || fscanf(file, "%*d %ld", &pages) != 1) fail("the program under test is gone");
    fclose(file);
    return (double)pages * 4096;
}

static void open_sessions(void) {
    dialect *d = &dialects[CALLER];
    for (int n = 0; n < count; n++) {
        session *s = &sessions[n];
        s->number = n;
        s->caller = calloc(1, sizeof(peer));
        s->caller->session = s;
        int channels = d->framing == ZMTP ? 2 : 1;
        for (int i = 0; i < channels; i++) {
            conn *c = add_conn(socket_at(d->address[(n * channels + i) % d->addresses], 0), d->framing);
            c->channel = i;
            c->peer = s->caller;
            s->caller->channel[i] = c;
            begin_conn(c);
        }
        if (d->framing == LINE) say(s->caller, d->open, d->opens);
        while (n + 1 - ready > 32) step(1000); /* a crowd, but no stampede */
    }
    while (ready < count) step(1000);
}

static int by_value(const void *a, const void *b) {
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return x < y ? -1 : x > y;
}
static double at_rank(long many, double share) { return many ? latency[(long)((double)(many - 1) * share)] / 10.0 : 0; }

typedef struct { double at, cpu; long delivered; } mark;
static mark marked(void) { return (mark){now(), cpu(), delivered}; }

static void run_steady(mark *first, mark *last) {
    uint64_t start = now_ns(), tick = 0;
    int *order = malloc((size_t)count * sizeof *order), crowd = 0;
    double *phase = malloc((size_t)count * sizeof *phase), gap = 1e9 * count / rate;
    for (int n = 0; n < count; n++) { order[n] = n; phase[n] = (n + (double)rand() / RAND_MAX) / count; }
    for (int n = count - 1; n > 0; n--) { int m = rand() % (n + 1), kept = order[n]; order[n] = order[m]; order[m] = kept; }
    for (int n = 0; n < count; n++) ask(&sessions[n]);
    while (ended < count) {
        uint64_t due = start + (uint64_t)(gap * ((double)(tick / (uint64_t)count) + phase[tick % (uint64_t)count]));
        uint64_t at = now_ns();
        if (at < due) { step_until(due - at); continue; }
        session *s = &sessions[order[tick++ % (uint64_t)count]];
        if (!crowd && begun == count) { crowd = 1; *first = marked(); steady_window = 1; }
        if (s->begun && s->sent < want) send_tokens(s, 1);
        else if (s->begun) {
            if (steady_window) { *last = marked(); steady_window = 0; }
            finish(s);
        }
        if (tick % 16 == 0) step(0);
    }
    if (!crowd) fail("not all turns were open at once: ask for more seconds");
}

static void run_bulk(void) {
    for (int n = 0; n < count; n++) ask(&sessions[n]);
    while (ended < (long)count * turns) {
        int blocked = 1;
        for (int n = 0; n < count; n++) {
            session *s = &sessions[n];
            if (!s->begun || s->backend->channel[0]->out.len) continue;
            blocked = 0;
            if (s->sent < want) send_tokens(s, block);
            else finish(s);
        }
        step(blocked ? 1000 : 0);
    }
}

static void run(void) {
    sessions = calloc((size_t)count, sizeof *sessions);
    for (int n = 0; n < count && rate > 0; n++) sessions[n].sent_at = calloc((size_t)want, sizeof(uint64_t));
    latency_room = rate > 0 ? (long)count * want : 0;
    latency = calloc((size_t)latency_room + 1, sizeof *latency);
    latency_steady = calloc((size_t)latency_room + 1, 1);
    progress = now();
    double before = memory();
    mark opening = marked();
    open_sessions();
    mark opened = marked();
    settle(0.5);
    double idle = memory();
    mark start = marked(), first = start, last = start;
    if (rate > 0) run_steady(&first, &last);
    else run_bulk();
    mark end = marked();
    if (rate <= 0) last = end;
    settle(0.3); /* whatever comes after the end is an error */
    double left = memory();
    for (int n = 0; n < count; n++) if (sessions[n].ended != turns) fail("session %d ended %d times", n, sessions[n].ended);
    long steady = 0;
    uint32_t worst = 0;
    uint32_t *all = malloc(((size_t)latencies + 1) * sizeof *all);
    memcpy(all, latency, (size_t)latencies * sizeof *all);
    for (long i = 0; i < latencies; i++) {
        if (all[i] > worst) worst = all[i];
        if (latency_steady[i]) latency[steady++] = all[i];
    }
    qsort(latency, (size_t)steady, sizeof *latency, by_value);
    double p50 = at_rank(steady, 0.5), p99 = at_rank(steady, 0.99);
    memcpy(latency, all, (size_t)latencies * sizeof *all);
    qsort(latency, (size_t)latencies, sizeof *latency, by_value);
    printf("{\"sessions\":%d,\"events\":%ld,\"seconds\":%.6f,\"cpu\":%.9f,\"total_cpu\":%.9f,\"open_cpu\":%.9f,\"connect\":%.6f,"
        "\"connect_cpu\":%.9f,\"merged\":%ld,\"p50\":%.1f,\"p99\":%.1f,\"p99_all\":%.1f,\"worst\":%.1f,\"memory\":[%.0f,%.0f,%.0f]}\n",
        count, last.delivered - first.delivered, last.at - first.at, last.cpu - first.cpu, end.cpu - start.cpu,
        first.cpu - start.cpu, opened.at - opening.at, opened.cpu - opening.cpu, delivered - frames_seen, p50, p99,
        at_rank(latencies, 0.99), worst / 10.0, before, idle, left);
}

/* -- the description of a run ------------------------------------------------------------------------------------- */

static char *field(char **rest) { char *at = strsep(rest, "\t"); return at ? at : ""; }

static void read_rule(dialect *d, char *rest) {
    rule *r = &d->rule[d->rules++];
    char *action = field(&rest), *marks = field(&rest), *key = field(&rest), *takes = field(&rest), *mark, *take;
    while (strcmp(ACTIONS[r->action], action)) if (++r->action > REPLY) fail("no such action: %s", action);
    for (int i = 0; (mark = strsep(&marks, "&"));) r->marks[i++] = mark;
    r->key = *key ? key : NULL;
    while (*takes && (take = strsep(&takes, " ")) && *take) {
        r->var[r->vars] = *take - '0';
        r->take[r->vars++] = take + 2;
        if (!takes) break;
    }
    while (rest && *rest) {
        if (r->replies == TEMPLATES) fail("more than %d replies to a message", TEMPLATES);
        int channel = atoi(field(&rest));
        r->reply[r->replies++] = (template){channel, field(&rest)};
    }
}

/* Read lines until "run": what each role says, where it is, and how much. */
static void read_spec(FILE *from, const char *last) {
    size_t cap = 0;
    for (char *line = NULL; getline(&line, &cap, from) > 0; line = NULL, cap = 0) {
        line[strcspn(line, "\n")] = 0;
        if (!strcmp(line, last)) return;
        char *rest = line, *name = field(&rest);
        dialect *d = &dialects[name[0] == 'b'];
        const char *what = name[0] && name[1] == '.' ? name + 2 : name;
        if (!strcmp(what, "framing")) d->framing = !strcmp(rest, "ws") ? WS : !strcmp(rest, "zmtp") ? ZMTP : LINE;
        else if (!strcmp(what, "at")) {
            d->address = realloc(d->address, (size_t)(d->addresses + 1) * sizeof(char *));
            d->address[d->addresses++] = rest;
        } else if (!strcmp(what, "rule")) read_rule(d, rest);
        else if (!strcmp(what, "count")) count = atoi(rest);
        else if (!strcmp(what, "want")) want = atol(rest);
        else if (!strcmp(what, "rate")) rate = atof(rest);
        else if (!strcmp(what, "block")) block = atoi(rest);
        else if (!strcmp(what, "turns")) turns = atoi(rest);
        else if (!strcmp(what, "bearer")) bearer = *rest ? rest : NULL;
        else if (!strcmp(what, "pid")) pid = atoi(rest);
        else {
            template *all = !strcmp(what, "open") ? d->open : !strcmp(what, "say") ? d->say : !strcmp(what, "token") ? d->token : d->finish;
            int *many = !strcmp(what, "open") ? &d->opens : !strcmp(what, "say") ? &d->says : !strcmp(what, "token") ? &d->tokens : &d->finishes;
            int channel = atoi(field(&rest));
            all[(*many)++] = (template){channel, rest};
        }
    }
    fail("the description ends without '%s'", last);
}

static void listen_at(const char *address, int framing, int channel, peer *p) {
    conn *c = add_conn(socket_at(address, 1), framing);
    c->listening = 1;
    c->channel = channel;
    c->peer = p;
}

int main(int argc, char **argv) {
    struct rlimit files;
    getrlimit(RLIMIT_NOFILE, &files);
    files.rlim_cur = files.rlim_max;
    setrlimit(RLIMIT_NOFILE, &files);
    epoll = epoll_create1(0);
    signal(SIGPIPE, SIG_IGN);
    prctl(PR_SET_TIMERSLACK, 1, 0, 0, 0);
    setvbuf(stderr, NULL, _IOLBF, 0);
    if (argc == 6 && !strcmp(argv[1], "relay")) {
        relaying = 1;
        relay_framing[0] = argv[2];
        relay_framing[1] = argv[4];
        relay_address = argv[5];
        listen_at(argv[3], strcmp(argv[2], "ws") ? LINE : WS, 0, NULL);
        for (;;) step(-1);
    }
    if (argc != 2 || strcmp(argv[1], "run")) fail("usage: load run | load relay FRAMING ADDRESS FRAMING ADDRESS");
    read_spec(stdin, "listen");
    dialect *d = &dialects[BACKEND];
    peer *pair = NULL;
    for (int i = 0; i < d->addresses; i++) {
        int channel = d->framing == ZMTP ? i % 2 : 0;
        if (d->framing == ZMTP && !channel) pair = calloc(1, sizeof(peer));
        listen_at(d->address[i], d->framing, channel, pair);
    }
    fputs("ready\n", stderr);
    read_spec(stdin, "run");
    run();
    return 0;
}
