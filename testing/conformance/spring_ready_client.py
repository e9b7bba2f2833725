"""A program around spring-ready-python's registry and discovery. Usage: spring_ready_client.py URL APP. Speaks JSON
lines; see harness.Program."""

import logging
import sys

from program import answer
from spring_ready.eureka import EurekaClient, EurekaRegistry, InstanceInfo, ServiceDiscovery
from spring_ready.eureka.instance import InstanceStatus, LeaseInfo
from spring_ready.exceptions import ServiceDiscoveryError

URL, APP = sys.argv[1:3]

# It tells of each request that failed, and the suite looks for itself.
logging.disable(logging.ERROR)


def found(app, every):
    """Instances of an application by id, those that are not up only where `every` says so."""
    try:
        instances = discovery.get_instances(app, only_up=not every)
    except ServiceDiscoveryError:
        return {}
    return {one.instance_id: [one.status, one.base_url, one.metadata.get("round")] for one in instances}


def do(words):
    match words["do"]:
        case "apps":
            return discovery.list_services()
        case "found":
            return found(words["app"], words.get("every", False))
        case "url":
            return discovery.get_service_url(words["app"])
        case "status":
            return registry.update_status(InstanceStatus[words["value"]])
        case "stop":
            return registry.shutdown()


own = InstanceInfo.create(APP, host_name="127.0.0.1", ip_addr="127.0.0.1", port=9501, metadata={"a_b": "c&d <e>"})
own.lease_info = LeaseInfo(renewal_interval_in_secs=1, duration_in_secs=4)
registry = EurekaRegistry([URL], own)
discovery = ServiceDiscovery(EurekaClient([URL]))
registry.start()
answer(do)
