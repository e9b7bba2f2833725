"""Registers an instance, keeps its lease, and cancels it on Ctrl-C or SIGTERM.

Usage: python serve.py TARGET APP SERVICE-PORT, where the target is HOST:PORT or ipv4:IP:PORT,IP:PORT
"""

import os
import signal
import sys
import threading
import time

import grpc
from heureka.registry.v1 import instance_pb2 as instances
from heureka.registry.v1 import registry_service_pb2 as registry
from heureka.registry.v1 import registry_service_pb2_grpc as services

# Answers that ask the owner to register again.
REGISTER_AGAIN = (grpc.StatusCode.NOT_FOUND, grpc.StatusCode.FAILED_PRECONDITION)
# Answers that no retry mends.
FAULTS = (grpc.StatusCode.INVALID_ARGUMENT, grpc.StatusCode.ABORTED)
TIMEOUT = 5.0


class Owner:
    """One instance, and the order of this process's writes of it."""

    def __init__(self, stub, instance):
        self.stub = stub
        self.instance = instance
        self.incarnation = os.urandom(16)
        # Starts from the clock, so that it is above that of an earlier life.
        self.version = int(time.time() * 1000)
        self.first = True

    def writer(self):
        return registry.Writer(incarnation=self.incarnation, version=self.version, first=self.first)

    def register(self):
        """Registers; seconds until the first renewal."""
        self.version += 1
        request = registry.RegisterRequest(instance=self.instance, writer=self.writer())
        response = self.stub.Register(request, timeout=TIMEOUT)
        self.acknowledged(response.version)
        print("registered", self.instance.key.app, self.instance.key.id, flush=True)
        return response.lease.renewal_interval.ToTimedelta().total_seconds()

    def renew(self):
        """Renews, or registers when asked to; seconds until the next renewal."""
        request = registry.RenewRequest(key=self.instance.key, writer=self.writer())
        try:
            response = self.stub.Renew(request, timeout=TIMEOUT)
            return response.next_renewal_in.ToTimedelta().total_seconds()
        except grpc.RpcError as error:
            if error.code() in REGISTER_AGAIN:
                return self.register()
            raise

    def cancel(self):
        self.version += 1
        request = registry.CancelRequest(key=self.instance.key, writer=self.writer())
        response = self.stub.Cancel(request, timeout=TIMEOUT)
        print("cancelled, was there:", response.existed, flush=True)

    def acknowledged(self, version):
        self.version = max(self.version, version.owner)
        self.first = False


def several(target):
    """Options of a channel. gRPC makes the authority of a whole list, and no server takes one with two ports."""
    return [("grpc.default_authority", "heureka")] if "," in target else []


def main(target, app, port):
    instance = instances.Instance(
        key=instances.InstanceKey(app=app, id=f"localhost:{app.lower()}:{port}"),
        host_name="localhost",
        ip_address="127.0.0.1",
        port=instances.Port(number=port, enabled=True),
        vip_address=app.lower(),
    )
    leaving = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: leaving.set())
    with grpc.insecure_channel(target, several(target)) as channel:
        owner = Owner(services.RegistryServiceStub(channel), instance)
        call = owner.register
        wait = 0.0
        while not leaving.wait(wait):
            try:
                wait = call()
                call = owner.renew
            except grpc.RpcError as error:
                print(error.code().name, error.details(), file=sys.stderr)
                if error.code() in FAULTS:
                    sys.exit(1)
                wait = 1.0
        owner.cancel()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]))
