"""Messages and services of the protocol.

protocol.binpb holds the compiled descriptors of core/plugin/proto/v1; `go generate ./core/plugin` writes it. Messages are
made from it at import, so no code has to be generated for a particular version of protobuf.
"""

from __future__ import annotations

import pkgutil
from typing import Any, Callable, Mapping

import grpc
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

PACKAGE = "harness.v1"

_files = descriptor_pb2.FileDescriptorSet.FromString(pkgutil.get_data(__package__, "protocol.binpb"))
_pool = descriptor_pool.DescriptorPool()
for _file in _files.file:
    _pool.AddSerializedFile(_file.SerializeToString())


def _message(full_name: str) -> Any:
    descriptor = _pool.FindMessageTypeByName(full_name)
    if hasattr(message_factory, "GetMessageClass"):  # protobuf 4.22 and later
        return message_factory.GetMessageClass(descriptor)
    return message_factory.MessageFactory(_pool).GetPrototype(descriptor)


_messages = {m.name: _message(f"{PACKAGE}.{m.name}") for f in _files.file for m in f.message_type}
_services = {s.name: s for f in _files.file for s in f.service}


def __getattr__(name: str) -> Any:
    """The class of the message of that name."""
    try:
        return _messages[name]
    except KeyError:
        raise AttributeError(name) from None


def service(name: str, methods: Mapping[str, Callable[..., Any]]) -> grpc.GenericRpcHandler:
    """A service of the protocol with a function for each of its calls. Calls without one fail with UNIMPLEMENTED."""
    kinds = {
        (False, False): grpc.unary_unary_rpc_method_handler,
        (False, True): grpc.unary_stream_rpc_method_handler,
        (True, False): grpc.stream_unary_rpc_method_handler,
        (True, True): grpc.stream_stream_rpc_method_handler,
    }
    handlers = {}
    for m in _services[name].method:
        if m.name in methods:
            request, response = (_message(t.lstrip(".")) for t in (m.input_type, m.output_type))
            make = kinds[m.client_streaming, m.server_streaming]
            handlers[m.name] = make(methods[m.name], request.FromString, response.SerializeToString)
    return grpc.method_handlers_generic_handler(f"{PACKAGE}.{name}", handlers)
