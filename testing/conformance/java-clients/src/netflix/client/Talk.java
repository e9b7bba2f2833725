package client;

import com.netflix.appinfo.ApplicationInfoManager;
import com.netflix.appinfo.InstanceInfo;
import com.netflix.appinfo.InstanceInfo.InstanceStatus;
import com.netflix.discovery.EurekaClient;
import com.netflix.discovery.shared.Application;
import com.netflix.discovery.shared.Applications;
import com.netflix.discovery.shared.transport.EurekaHttpClient;
import com.netflix.discovery.shared.transport.EurekaHttpResponse;
import java.util.ArrayList;
import java.util.Map;
import java.util.TreeMap;
import java.util.concurrent.Callable;

/** What a client of Netflix's engine can be asked for. */
final class Talk {
    private final EurekaClient client;
    private final ApplicationInfoManager self;
    private final EurekaHttpClient wire;

    /** A client that runs, and a transport of the same kind that is called directly. */
    Talk(EurekaClient client, ApplicationInfoManager self, EurekaHttpClient wire) {
        this.client = client;
        this.self = self;
        this.wire = wire;
    }

    void run() throws Exception {
        Lines.say("\"started\": true, \"over\": " + Lines.text(wire.getClass().getSimpleName()));
        Lines.run(this::done);
    }

    private String done(String what, String line) throws Exception {
        switch (what) {
            case "held":
                return held(client.getApplications());
            case "status":
                self.setInstanceStatus(InstanceStatus.valueOf(Lines.field(line, "value")));
                return "true";
            case "metadata":
                self.registerAppMetadata(Map.of("key", Lines.field(line, "value")));
                return "true";
            case "calls":
                return calls(Lines.field(line, "id"));
            case "stop":
                client.shutdown();
                return "true";
            default:
                throw new IllegalArgumentException(what);
        }
    }

    /** Everything that the client holds, by application and id. */
    private static String held(Applications all) {
        var found = new TreeMap<String, String>();
        for (Application app : all.getRegisteredApplications()) {
            for (InstanceInfo one : app.getInstances()) {
                String told = one.getStatus() + " " + one.getMetadata().getOrDefault("key", "");
                found.put(app.getName() + "/" + one.getId(), told.trim());
            }
        }
        return Lines.object(found);
    }

    /** Calls every method of the transport with an instance of its own: what each answers. */
    private String calls(String id) throws Exception {
        InstanceInfo own = self.getInfo();
        InstanceInfo one = InstanceInfo.Builder.newBuilder()
            .setInstanceId(id).setAppName("DIRECT").setHostName("direct.example").setIPAddr("10.0.0.9").setPort(81)
            .setVIPAddress("direct").setSecureVIPAddress("direct-s").setDataCenterInfo(own.getDataCenterInfo())
            .setLeaseInfo(own.getLeaseInfo()).setStatus(InstanceStatus.UP).add("a_b", "c$d").build();
        one.setLastDirtyTimestamp(1000L);
        var told = new ArrayList<String>();
        told.add(call("unknown", () -> wire.sendHeartBeat("DIRECT", id, one, null)));
        told.add(call("register", () -> wire.register(one)));
        told.add(call("beat", () -> wire.sendHeartBeat("DIRECT", id, one, null)));
        told.add(call("overridden beat", () -> wire.sendHeartBeat("DIRECT", id, one, InstanceStatus.OUT_OF_SERVICE)));
        told.add(call("application", () -> wire.getApplications(), all -> present((Applications) all, id)));
        told.add(call("delta", () -> wire.getDelta(), all -> present((Applications) all, id)));
        told.add(call("vip", () -> wire.getVip("direct"), all -> present((Applications) all, id)));
        told.add(call("svip", () -> wire.getSecureVip("direct-s"), all -> present((Applications) all, id)));
        told.add(call("no vip", () -> wire.getVip("nobody"), all -> present((Applications) all, id)));
        told.add(call("app", () -> wire.getApplication("DIRECT"), app -> "" + ((Application) app).size()));
        told.add(call("instance", () -> wire.getInstance("DIRECT", id), Talk::seen));
        told.add(call("by id", () -> wire.getInstance(id), Talk::seen));
        told.add(call("out", () -> wire.statusUpdate("DIRECT", id, InstanceStatus.OUT_OF_SERVICE, one)));
        told.add(call("is out", () -> wire.getInstance("DIRECT", id), Talk::seen));
        told.add(call("back", () -> wire.deleteStatusOverride("DIRECT", id, one)));
        told.add(call("is back", () -> wire.getInstance("DIRECT", id), Talk::seen));
        told.add(call("beat again", () -> wire.sendHeartBeat("DIRECT", id, one, null)));
        told.add(call("cancel", () -> wire.cancel("DIRECT", id)));
        told.add(call("cancel again", () -> wire.cancel("DIRECT", id)));
        told.add(call("no app", () -> wire.getApplication("DIRECT")));
        return "[" + String.join(", ", told) + "]";
    }

    private static String present(Applications all, String id) {
        return all.getRegisteredApplications().stream().anyMatch(app -> app.getByInstanceId(id) != null) ? "has it" : "has it not";
    }

    private static String seen(Object one) {
        InstanceInfo info = (InstanceInfo) one;
        return info.getId() + " " + info.getStatus() + " " + info.getMetadata().get("a_b");
    }

    private interface Shown {
        String of(Object entity);
    }

    private static String call(String name, Callable<EurekaHttpResponse<?>> method) throws Exception {
        return call(name, method, entity -> "an entity");
    }

    private static String call(String name, Callable<EurekaHttpResponse<?>> method, Shown shown) throws Exception {
        EurekaHttpResponse<?> answer = method.call();
        String entity = answer.getEntity() == null ? "" : " " + shown.of(answer.getEntity());
        return Lines.text(name + ": " + answer.getStatusCode() + entity);
    }
}
