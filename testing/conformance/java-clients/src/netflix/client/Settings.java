package client;

import com.netflix.appinfo.MyDataCenterInstanceConfig;
import com.netflix.discovery.DefaultEurekaClientConfig;
import java.util.List;

/** Settings of a client that does everything each second. */
final class Settings {
    private Settings() {}

    /** Which server it knows, and how much of an instance it wants to be told. */
    static final class Client extends DefaultEurekaClientConfig {
        private final String url;
        private final String accept;

        Client(String url, String accept) {
            this.url = url;
            this.accept = accept;
        }

        @Override
        public String getClientDataAccept() {
            return accept;
        }

        @Override
        public List<String> getEurekaServerServiceUrls(String zone) {
            return List.of(url);
        }

        @Override
        public int getRegistryFetchIntervalSeconds() {
            return 1;
        }

        @Override
        public int getInstanceInfoReplicationIntervalSeconds() {
            return 1;
        }

        @Override
        public int getInitialInstanceInfoReplicationIntervalSeconds() {
            return 0;
        }

        @Override
        public boolean shouldFilterOnlyUpInstances() {
            return false;
        }
    }

    /** Who it is. */
    static final class Instance extends MyDataCenterInstanceConfig {
        private final String app;

        Instance(String app) {
            this.app = app;
        }

        @Override
        public String getAppname() {
            return app;
        }

        @Override
        public String getInstanceId() {
            return "host:" + app + ":80";
        }

        @Override
        public String getHostName(boolean refresh) {
            return "127.0.0.1";
        }

        @Override
        public String getIpAddress() {
            return "127.0.0.1";
        }

        @Override
        public String getVirtualHostName() {
            return app;
        }

        @Override
        public boolean isInstanceEnabledOnit() {
            return true;
        }

        @Override
        public int getLeaseRenewalIntervalInSeconds() {
            return 1;
        }

        @Override
        public int getLeaseExpirationDurationInSeconds() {
            return 4;
        }
    }
}
