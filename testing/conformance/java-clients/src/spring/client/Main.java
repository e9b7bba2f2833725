package client;

import com.netflix.appinfo.ApplicationInfoManager;
import com.netflix.discovery.EurekaClient;
import com.netflix.discovery.EurekaClientConfig;
import com.netflix.discovery.shared.resolver.DefaultEndpoint;
import com.netflix.discovery.shared.transport.jersey.TransportClientFactories;
import com.netflix.discovery.shared.transport.jersey3.Jersey3TransportClientFactories;
import java.util.ArrayList;
import java.util.List;
import org.springframework.boot.SpringApplication;
import org.springframework.boot.autoconfigure.SpringBootApplication;
import org.springframework.boot.autoconfigure.condition.ConditionalOnBooleanProperty;
import org.springframework.context.annotation.Bean;
import org.springframework.web.reactive.function.client.WebClient;

/** Spring's client as its starter configures it: `Main URL APPLICATION full|compact SETTING...`. */
@SpringBootApplication
public class Main {
    /** What Spring's WebClient transport is made of, where that is asked for. */
    @Bean
    WebClient.Builder webClient() {
        return WebClient.builder();
    }

    /** Jersey's, which is on the class path and has to be named here. */
    @Bean
    @ConditionalOnBooleanProperty("eureka.client.jersey.enabled")
    TransportClientFactories<?> jersey() {
        return Jersey3TransportClientFactories.getInstance();
    }

    public static void main(String[] arguments) throws Exception {
        var settings = new ArrayList<>(List.of(
            "--spring.main.banner-mode=off", "--spring.main.web-application-type=none", "--logging.level.root=WARN",
            "--spring.cloud.refresh.enabled=false", "--spring.application.name=" + arguments[1],
            "--eureka.client.service-url.defaultZone=" + arguments[0], "--eureka.client.client-data-accept=" + arguments[2],
            "--eureka.client.registry-fetch-interval-seconds=1", "--eureka.client.filter-only-up-instances=false",
            "--eureka.client.instance-info-replication-interval-seconds=1",
            "--eureka.client.initial-instance-info-replication-interval-seconds=0",
            "--eureka.instance.instance-id=host:" + arguments[1] + ":80", "--eureka.instance.hostname=127.0.0.1",
            "--eureka.instance.ip-address=127.0.0.1", "--eureka.instance.non-secure-port=80",
            "--eureka.instance.lease-renewal-interval-in-seconds=1",
            "--eureka.instance.lease-expiration-duration-in-seconds=4"));
        settings.addAll(List.of(arguments).subList(3, arguments.length));
        var spring = SpringApplication.run(Main.class, settings.toArray(String[]::new));
        var self = spring.getBean(ApplicationInfoManager.class);
        var client = spring.getBean(EurekaClientConfig.class);
        TransportClientFactories<?> transports = spring.getBean(TransportClientFactories.class);
        var direct = transports.newTransportClientFactory(client, List.of(), self.getInfo());
        new Talk(spring.getBean(EurekaClient.class), self, direct.newClient(new DefaultEndpoint(arguments[0]))).run();
    }
}
