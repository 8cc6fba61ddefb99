import signal
import threading
from datetime import timedelta

from landfall.driver.core.background import QueueNotifier, Threads

NEVER, AT_ONCE = timedelta(hours=1), timedelta(0)


def test_a_notification_before_the_wait_ends_it_at_once() -> None:
    notifier = QueueNotifier()
    notifier.notify()

    notifier.wait(NEVER)


def test_a_wait_without_a_notification_ends_after_the_timeout() -> None:
    QueueNotifier().wait(AT_ONCE)


def test_several_notifications_end_one_wait() -> None:
    notifier = QueueNotifier()
    for _ in range(3):
        notifier.notify()

    notifier.wait(NEVER)

    assert notifier._queue.empty()


def test_a_signal_handler_may_notify_the_thread_that_it_interrupts() -> None:
    notifier = QueueNotifier()
    before = signal.signal(signal.SIGUSR1, lambda *_: notifier.notify())
    main = threading.main_thread().ident
    assert main
    threading.Timer(0.05, lambda: signal.pthread_kill(main, signal.SIGUSR1)).start()

    notifier.wait(NEVER)

    signal.signal(signal.SIGUSR1, before)


def test_a_pools_threads_have_its_name() -> None:
    with Threads().pool(1, "complete") as pool:
        name = pool.submit(lambda: threading.current_thread().name).result()

    assert name.startswith("complete")
