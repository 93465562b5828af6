"""The executions of one connection: what the service asks of each, and the answers of its tools, functions and policies."""

from __future__ import annotations

import asyncio
import contextvars
import json
import sys
from collections import OrderedDict, deque
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from ._options import EVENT_TYPES, Control, Question, answer
from ._plain import to_json, write
from ._service import Message, Service, logger
from ._tools import Call, NamedProvider, Tool
from ._values import decoder, encode, is_async
from .errors import ExecboxError, InvalidInput, ProgramError, ToolError, message_of

if TYPE_CHECKING:
    from concurrent.futures import ThreadPoolExecutor

    from .events import Event

_INVALID_PARAMS = -32602
_FAILED = 1
_MAX_PROVIDERS = 256
_MAX_ERRORS = 64
_MAX_QUEUED_EVENTS = 256

Reply = tuple[str, Sequence[bytes]]
"""The result of a request of the service as JSON, and its attachments."""
Threads = Callable[[], "ThreadPoolExecutor"]
Read = TypeVar("Read")


class Session:
    """One connection, its providers and its executions."""

    def __init__(self, threads: Threads, *, command: Sequence[str] = (), path: str | None = None) -> None:
        self.threads = threads
        self._executions: dict[int, Execution] = {}
        self._answers: dict[int, asyncio.Task[None] | None] = {}
        """The requests of the service that wait for answers, and the tasks that work for them once these have begun to wait."""
        self._providers: OrderedDict[str, _Added] = OrderedDict()
        self.service = Service(self, command=command, path=path)

    @asynccontextmanager
    async def granted(self, providers: Sequence[NamedProvider]) -> AsyncIterator[list[int]]:
        """Adds the providers that are not there yet. They are not removed meanwhile."""
        users: list[_Added] = []
        try:
            for provider in providers:
                users.append(self._use(provider))
                await self._added(provider, users[-1])
            yield [each.number for each in users]
        finally:
            for each in users:
                each.users -= 1

    async def types(self, providers: Sequence[NamedProvider]) -> str:
        """The TypeScript declarations of the providers."""
        async with self.granted(providers):
            return "\n".join([self._providers[each.spec].types.strip() for each in providers])

    def _use(self, provider: NamedProvider) -> _Added:
        """A provider with the same declarations, or a new one."""
        added = self._providers.get(provider.spec)
        if added is None:
            added = self._providers[provider.spec] = _Added(self.service.request("add_provider", provider.spec))
            self._remove_unused()
        self._providers.move_to_end(provider.spec)
        added.users += 1
        return added

    async def _added(self, provider: NamedProvider, added: _Added) -> None:
        """Waits until the service has added the provider."""
        if added.is_known:
            return
        try:
            result, _ = await asyncio.shield(added.request)
        except ExecboxError:
            if self._providers.get(provider.spec) is added:
                del self._providers[provider.spec]
            raise
        if not added.is_known:
            added.is_known = True
            for warning in result.get("warnings", ()):
                logger.warning("%s", warning)

    def _remove_unused(self) -> None:
        """Removes the providers that were not used for longest."""
        for spec, added in list(self._providers.items())[:-_MAX_PROVIDERS]:
            if added.users == 0 and added.is_known:
                del self._providers[spec]
                self.service.request("remove_provider", f'{{"provider":{added.number}}}').add_done_callback(_ignore)

    async def execute(
        self,
        method: str,
        execution: Execution,
        params: Callable[[list[bytes]], Message],
        read: Callable[[Message, list[bytes]], Read],
    ) -> Read:
        """Sends an execution, and waits for its result. If it is cancelled here, it is cancelled there."""
        service = self.service
        if not service.has_room:
            await service.room()
        try:
            attachments: list[bytes] = []
            text = write(params(attachments))
            id, request = service.prepare()
            self._executions[id] = execution
            try:
                service.submit(id, method, text, attachments)
                execution.begin(id, request)
                json_result, attachments = await request
                await execution.deliver_events()
                return read(json_result, attachments)
            except BaseException:
                service.notify("cancel", f'{{"id":{id}}}')
                raise
            finally:
                del self._executions[id]
        finally:
            execution.end()

    # ---- Messages of the service ---------------------------------------------------------------------------------------

    def requested(self, method: str, params: Message, id: int, attachments: list[bytes]) -> None:
        work = _WORK.get(method)
        execution = self._executions.get(params["execution"])
        if work is None or execution is None:
            reason = "the execution has ended" if work is not None else f"this version of the package has no {method}"
            self.service.answer_error(id, _FAILED, reason)
            return
        self._answers[id] = None
        # The variables of a context are those of the caller, as for any task of it.
        task = _start(self._answer(id, execution, work, params, attachments), execution.context)
        if not task.done():
            self._answers[id] = execution.answers[id] = task

    async def _answer(
        self, id: int, execution: Execution, work: Work, params: Message, attachments: list[bytes]
    ) -> None:
        """Does what the service has asked for, and answers. An exception is answered with its message."""
        service = self.service
        try:
            result, attached = await work(execution, params, attachments, id)
            if not service.has_room:
                await service.room()
            service.answer(id, result, attached)
        except asyncio.CancelledError:
            # If the service still waits, the tool was cancelled by something else.
            if id in self._answers:
                service.answer_error(id, _FAILED, "the tool was cancelled")
            raise
        except InvalidInput as error:
            service.answer_error(id, _INVALID_PARAMS, str(error), error.name)
        except Exception as error:
            name = error.name if isinstance(error, ToolError) else type(error).__name__
            service.answer_error(id, _FAILED, message_of(error), name)
        except BaseException as error:  # the application ends
            service.answer_error(id, _FAILED, message_of(error))
            raise
        finally:
            self._answers.pop(id, None)
            execution.answers.pop(id, None)

    def notified(self, method: str, params: Message, attachments: list[bytes]) -> None:
        if method == "cancel":
            task = self._answers.pop(params["id"], None)
            if task is not None:
                task.cancel()
        elif method == "event":
            execution = self._executions.get(params["execution"])
            if execution is not None:
                execution.event(params, attachments)

    def forget(self, ids: Iterable[int]) -> None:
        """These requests of the service need no answers."""
        for id in ids:
            self._answers.pop(id, None)

    def ended(self, error: Exception) -> None:
        answers, self._answers = self._answers, {}
        for task in answers.values():
            if task is not None:
                task.cancel()

    async def close(self) -> None:
        """Ends the service, and waits for the tools that end when they are cancelled."""
        tasks = [task for task in self._answers.values() if task is not None]
        await self.service.close()
        if tasks:
            await asyncio.wait(tasks, timeout=1)


class _Added:
    """A provider that was added, or is being added."""

    def __init__(self, request: asyncio.Future[tuple[Any, list[bytes]]]) -> None:
        self.request = request
        self.is_known = False
        """Whether the service has answered."""
        self.users = 0

    @property
    def number(self) -> int:
        number: int = self.request.result()[0]["provider"]
        return number

    @property
    def types(self) -> str:
        types: str = self.request.result()[0]["types"]
        return types


def _start(work: Coroutine[Any, Any, None], context: contextvars.Context) -> asyncio.Task[None]:
    """Starts a task in a copy of the context, at once where Python can do that."""
    loop = asyncio.get_running_loop()
    if sys.version_info >= (3, 12):
        return asyncio.Task(work, loop=loop, context=context.copy(), eager_start=True)
    return context.run(loop.create_task, work)


def _ignore(future: asyncio.Future[Any]) -> None:
    if not future.cancelled():
        future.exception()


class Execution:
    """One execution: its grants, its open calls, and its functions and promises."""

    def __init__(self, session: Session, options: Mapping[str, Any], providers: Mapping[int, NamedProvider]) -> None:
        self.context = contextvars.copy_context()
        self.answers: dict[int, asyncio.Task[None]] = {}
        self.dropped_events = 0
        """How many events were dropped here."""
        self._session = session
        self._providers = providers
        self._approve = options.get("approve")
        self._on_event = options.get("on_event")
        self._control: Control | None = options.get("control")
        self._events: deque[tuple[Message, list[bytes]]] = deque()
        self._delivery: asyncio.Task[None] | None = None
        self._failure: Exception | None = None
        self._errors: dict[int, Exception] = {}
        self._functions: dict[int, Callable[..., Any]] = {}
        self._promises: dict[int, asyncio.Future[Any]] = {}
        self._coroutines: list[asyncio.Future[Any]] = []
        self._last_handle = 0
        self._request: asyncio.Future[Any] | None = None

    # ---- Beginning and end ---------------------------------------------------------------------------------------------

    def begin(self, id: int, request: asyncio.Future[Any]) -> None:
        """The execution is sent: it can be terminated."""
        self._request = request
        if self._control is not None:

            def terminate(reason: str | None) -> None:
                params = {"id": id} if reason is None else {"id": id, "reason": reason}
                self._session.service.notify("terminate", json.dumps(params))

            self._control._attach(terminate)

    def end(self) -> None:
        """Cancels what is still done for the execution."""
        if self._control is not None:
            self._control._attach(None)
        self._session.forget(self.answers)
        for future in [*self.answers.values(), *self._coroutines]:
            future.cancel()
        if self._delivery is not None:
            self._delivery.cancel()

    def _fail(self, error: Exception) -> None:
        """A callback has failed: the execution raises the same."""
        self._failure = self._failure or error
        if self._request is not None and not self._request.done():
            self._request.set_exception(error)

    def explain(self, error: ProgramError | None) -> None:
        """Sets the exception of a tool as the cause of the error of the program that did not catch it."""
        if error is not None and error.cause is not None and error.cause.get("kind") == "failed_call":
            error.__cause__ = self._errors.get(error.cause.get("call", 0))

    # ---- Tools ---------------------------------------------------------------------------------------------------------

    async def call_tool(self, params: Message, attachments: list[bytes], id: int) -> Reply:
        """Calls a tool."""
        provider = self._providers[params["provider"]]
        tool = provider.tools[params["tool"]]
        try:
            arguments, named = tool._arguments(
                params["input"],
                lambda: Call(provider.name, tool.name, params["call"], partial(self._report_progress, id)),
            )
            value = await self._call(tool.function, tool.is_async, arguments, named)
            return _result(tool, value), ()
        except Exception as error:
            logger.debug("%s.%s failed", provider.name, tool.name, exc_info=True)
            if len(self._errors) < _MAX_ERRORS:
                self._errors[params["call"]] = error
            raise

    async def _call(
        self, function: Callable[..., Any], is_async: bool, arguments: Sequence[Any], named: Mapping[str, Any]
    ) -> Any:
        """Calls a function of the application: a synchronous one in a thread, so that it does not block the event loop."""
        if is_async:
            return await function(*arguments, **named)
        context = contextvars.copy_context()
        value = await asyncio.get_running_loop().run_in_executor(
            self._session.threads(), lambda: context.run(_call_in_thread, function, arguments, named)
        )
        return await value if isinstance(value, Awaitable) else value

    def _report_progress(self, id: int, done: float, total: float | None, message: str | None) -> None:
        service = self._session.service
        params = {"id": id, "done": done, "total": total, "message": message}
        text = write({key: value for key, value in params.items() if value is not None})
        try:
            is_here = asyncio.get_running_loop() is service.loop
        except RuntimeError:  # a synchronous tool is in a thread
            is_here = False
        if is_here:
            service.notify("report_progress", text)
        else:
            service.loop.call_soon_threadsafe(service.notify, "report_progress", text)

    # ---- Functions and promises of runs --------------------------------------------------------------------------------

    def add_function(self, function: Callable[..., Any]) -> int:
        self._last_handle += 1
        self._functions[self._last_handle] = function
        return self._last_handle

    def add_promise(self, awaitable: Awaitable[Any]) -> int:
        self._last_handle += 1
        future: asyncio.Future[Any] = self.context.run(asyncio.ensure_future, awaitable)
        if future is not awaitable:
            future.add_done_callback(_ignore)
            self._coroutines.append(future)
        self._promises[self._last_handle] = future
        return self._last_handle

    def function(self, number: int) -> Callable[..., Any] | None:
        return self._functions.get(number)

    async def call_function(self, params: Message, attachments: list[bytes], id: int) -> Reply:
        """Calls a function that the program was given."""
        function = self._functions[params["function"]]
        arguments = decoder(self, attachments)(params["arguments"])
        return self._reply(await self._call(function, is_async(function), arguments, {}))

    async def await_promise(self, params: Message, attachments: list[bytes], id: int) -> Reply:
        """Waits for a promise that the program was given, which goes on if the program ends."""
        return self._reply(await asyncio.shield(self._promises[params["promise"]]))

    def _reply(self, value: Any) -> Reply:
        attachments: list[bytes] = []
        encoded = encode(value, self, attachments)
        return write({"value": encoded}), attachments

    # ---- Policies and events -------------------------------------------------------------------------------------------

    async def approve(self, params: Message, attachments: list[bytes], id: int) -> Reply:
        """Asks the application about a call."""
        assert self._approve is not None
        question = Question(
            params["provider"],
            params["tool"],
            params["input"],
            params["effect"],
            params["call"],
            params.get("lines", []),
        )
        try:
            value = self._approve(question)
            return answer(await value if isinstance(value, Awaitable) else value), ()
        except Exception as error:
            self._fail(error)
            raise

    def event(self, params: Message, attachments: list[bytes]) -> None:
        """Delivers an event, after those before. What an asynchronous callback does not read in time is dropped and counted."""
        assert self._on_event is not None
        if params["type"] not in EVENT_TYPES or self._failure is not None:
            return
        if len(self._events) >= _MAX_QUEUED_EVENTS:
            self.dropped_events += 1
            return
        self._events.append((params, attachments))
        if self._delivery is None or self._delivery.done():
            self._delivery = _start(self._deliver(self._on_event), self.context)

    async def _deliver(self, on_event: Callable[[Event], Awaitable[None] | None]) -> None:
        from .events import event

        while self._events:
            params, attachments = self._events.popleft()
            try:
                value = on_event(event(params, decoder(self, attachments)))
                if isinstance(value, Awaitable):
                    await value
            except Exception as error:
                self._fail(error)
                return

    async def deliver_events(self) -> None:
        """Waits until the events that have come are delivered. Raises what the callback has raised."""
        if self._delivery is not None:
            await self._delivery
        if self._failure is not None:
            raise self._failure


def _call_in_thread(function: Callable[..., Any], arguments: Sequence[Any], named: Mapping[str, Any]) -> Any:
    try:
        return function(*arguments, **named)
    except StopIteration as error:  # which a future cannot hold
        raise RuntimeError(f"the function raised StopIteration: {error.value!r}") from error


def _result(tool: Tool, value: Any) -> str:
    """The result of a tool, as JSON."""
    try:
        return to_json({"value": tool.dump(value) if tool.dump is not None else value})
    except (TypeError, ValueError, AttributeError, KeyError, RecursionError) as error:
        raise ToolError(f"{tool.name} has returned what is not JSON: {message_of(error)}") from error


Work = Callable[[Execution, Message, list[bytes], int], Coroutine[Any, Any, Reply]]

_WORK: dict[str, Work] = {
    "call_tool": Execution.call_tool,
    "call_function": Execution.call_function,
    "await_promise": Execution.await_promise,
    "approve": Execution.approve,
}
