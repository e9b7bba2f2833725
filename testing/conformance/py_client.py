"""An ordinary py-eureka-client program: registers, renews until told to stop, cancels."""

import sys

import py_eureka_client.eureka_client as eureka_client

server, app, port = sys.argv[1], sys.argv[2], int(sys.argv[3])
eureka_client.init(
    eureka_server=server,
    app_name=app,
    instance_host="127.0.0.1",
    instance_ip="127.0.0.1",
    instance_port=port,
    renewal_interval_in_secs=1,
    duration_in_secs=3,
)
print("started", flush=True)
sys.stdin.readline()
eureka_client.stop()
print("stopped", flush=True)
