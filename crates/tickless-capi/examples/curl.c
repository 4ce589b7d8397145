/* libcurl's multi interface in one epoll loop with Tickless: the timer callback starts an exact timer. A server in the
 * same loop answers the first request after 20 ms, and never the second one, which libcurl ends by its time limit. */
#include <arpa/inet.h>
#include <curl/curl.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "tickless.h"

#define MS UINT64_C(1000000)

static int epoll, accepted = -1, left = 2, answered, timed_out;
static CURLM *multi;
static struct tickless_timer of_curl, of_server;

static void finished(void) {
    CURLMsg *message;
    int more;
    while ((message = curl_multi_info_read(multi, &more)) != NULL) {
        if (message->msg != CURLMSG_DONE) continue;
        if (message->data.result == CURLE_OK) answered++;
        if (message->data.result == CURLE_OPERATION_TIMEDOUT) timed_out++;
        left--;
    }
}

static void ring(struct tickless_timer *timer, void *argument) {
    int running;
    (void)timer;
    (void)argument;
    curl_multi_socket_action(multi, CURL_SOCKET_TIMEOUT, 0, &running);
    finished();
}

/* What libcurl wants of a timer: one, moved or taken back. */
static int set_timer(CURLM *curl, long delay_ms, void *argument) {
    (void)curl;
    (void)argument;
    if (delay_ms < 0) tickless_timer_cancel(&of_curl);
    else tickless_timer_start(&of_curl, (uint64_t)delay_ms * MS);
    return 0;
}

static int watch(CURL *easy, curl_socket_t socket, int what, void *argument, void *known) {
    struct epoll_event event;
    (void)easy;
    (void)argument;
    (void)known;
    memset(&event, 0, sizeof event);
    event.data.fd = socket;
    event.events = (what & CURL_POLL_IN ? EPOLLIN : 0u) | (what & CURL_POLL_OUT ? EPOLLOUT : 0u);
    if (what == CURL_POLL_REMOVE) epoll_ctl(epoll, EPOLL_CTL_DEL, socket, &event);
    else if (epoll_ctl(epoll, EPOLL_CTL_MOD, socket, &event) != 0) epoll_ctl(epoll, EPOLL_CTL_ADD, socket, &event);
    return 0;
}

static void answer(struct tickless_timer *timer, void *argument) {
    static const char text[] = "HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\nok";
    (void)timer;
    (void)argument;
    if (write(accepted, text, sizeof text - 1) < 0) perror("write");
    close(accepted);
}

static size_t ignore(char *data, size_t size, size_t count, void *argument) {
    (void)data;
    (void)argument;
    return size * count;
}

static CURL *get(const char *url, long limit_ms) {
    CURL *easy = curl_easy_init();
    curl_easy_setopt(easy, CURLOPT_URL, url);
    curl_easy_setopt(easy, CURLOPT_PROXY, "");
    curl_easy_setopt(easy, CURLOPT_TIMEOUT_MS, limit_ms);
    curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, ignore);
    curl_multi_add_handle(multi, easy);
    return easy;
}

int main(void) {
    struct tickless_loop *loop;
    struct sockaddr_in address;
    socklen_t length = sizeof address;
    struct epoll_event event, ready[8];
    int server = socket(AF_INET, SOCK_STREAM, 0), count, i, running;
    char url[64];
    CURL *first, *second;

    memset(&address, 0, sizeof address);
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (server < 0 || bind(server, (struct sockaddr *)&address, sizeof address) != 0 || listen(server, 8) != 0 ||
        getsockname(server, (struct sockaddr *)&address, &length) != 0 || tickless_loop_new(&loop) != 0)
        return 1;
    epoll = epoll_create1(0);
    memset(&event, 0, sizeof event);
    event.events = EPOLLIN;
    event.data.fd = tickless_loop_fd(loop);
    epoll_ctl(epoll, EPOLL_CTL_ADD, tickless_loop_fd(loop), &event);
    event.data.fd = server;
    epoll_ctl(epoll, EPOLL_CTL_ADD, server, &event);
    tickless_timer_init(&of_curl, ring, NULL);
    tickless_timer_init(&of_server, answer, NULL);

    curl_global_init(CURL_GLOBAL_DEFAULT);
    multi = curl_multi_init();
    curl_multi_setopt(multi, CURLMOPT_TIMERFUNCTION, set_timer);
    curl_multi_setopt(multi, CURLMOPT_SOCKETFUNCTION, watch);
    snprintf(url, sizeof url, "http://127.0.0.1:%d/", ntohs(address.sin_port));
    first = get(url, 60000);
    second = NULL;

    while (left > 0) {
        count = epoll_wait(epoll, ready, 8, -1);
        for (i = 0; i < count; i++) {
            int descriptor = ready[i].data.fd;
            if (descriptor == tickless_loop_fd(loop)) {
                tickless_loop_turn(loop);
            } else if (descriptor == server) {
                int connection = accept(server, NULL, NULL);
                if (accepted < 0) {
                    accepted = connection;
                    tickless_timer_start(&of_server, 20 * MS);
                }
            } else {
                int mask = (ready[i].events & (EPOLLIN | EPOLLHUP | EPOLLERR) ? CURL_CSELECT_IN : 0) |
                           (ready[i].events & EPOLLOUT ? CURL_CSELECT_OUT : 0);
                curl_multi_socket_action(multi, descriptor, mask, &running);
                finished();
            }
        }
        if (answered == 1 && second == NULL) second = get(url, 50);
    }
    printf("%d answered, %d ended by its time limit\n", answered, timed_out);
    curl_multi_remove_handle(multi, first);
    curl_multi_remove_handle(multi, second);
    curl_easy_cleanup(first);
    curl_easy_cleanup(second);
    curl_multi_cleanup(multi);
    tickless_timer_destroy(&of_curl);
    tickless_timer_destroy(&of_server);
    tickless_loop_free(loop);
    return !(answered == 1 && timed_out == 1);
}
