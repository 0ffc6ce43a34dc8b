// Apache Curator's side of discovery_interop_test.cpp. Ends with its input, of which each line is a command; each is
// answered by lines of which the last one is "done".
//
//   register <service> <id> <type> <enabled> <payload>   payload: none, text, object
//   update <service> <id> <text>                         of an instance that it registered
//   unregister <service> <id>
//   names                                                one line each
//   list <service>                                       one line each: id, type, enabled, address, port, payload, uri
//   cache <service> <count>                              waits until a ServiceCache has so many
//   rewrite <service> <id>                               reads an instance, and writes what it has read

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.ArrayList;
import java.util.Collection;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.CuratorFrameworkFactory;
import org.apache.curator.framework.state.ConnectionState;
import org.apache.curator.retry.RetryOneTime;
import org.apache.curator.x.discovery.ServiceCache;
import org.apache.curator.x.discovery.ServiceDiscovery;
import org.apache.curator.x.discovery.ServiceDiscoveryBuilder;
import org.apache.curator.x.discovery.ServiceInstance;
import org.apache.curator.x.discovery.ServiceType;
import org.apache.curator.x.discovery.UriSpec;
import org.apache.curator.x.discovery.details.JsonInstanceSerializer;
import org.apache.curator.x.discovery.details.ServiceCacheListener;

public final class CuratorDiscovery {
  public static final class Details {
    private String zone = "eu";
    private int weight = 3;

    public String getZone() {
      return zone;
    }

    public void setZone(String zone) {
      this.zone = zone;
    }

    public int getWeight() {
      return weight;
    }

    public void setWeight(int weight) {
      this.weight = weight;
    }

    @Override
    public String toString() {
      return zone + "/" + weight;
    }
  }

  // It writes `enabled`, as Curator does where it need not serve older readers.
  private static final JsonInstanceSerializer<Object> serializer = new JsonInstanceSerializer<>(Object.class, false);
  private static final Map<String, ServiceInstance<Object>> registered = new HashMap<>();
  private static final Map<String, ServiceCache<Object>> caches = new HashMap<>();
  private static final Object changed = new Object();
  private static ServiceDiscovery<Object> discovery;

  private static void say(String line) {
    System.out.println(line);
    System.out.flush();
  }

  private static Object payload(String kind) {
    if (kind.equals("none")) return null;
    return kind.equals("object") ? new Details() : kind;
  }

  private static String uri(ServiceInstance<Object> instance) {
    return instance.getUriSpec() == null ? "none" : instance.buildUriSpec();
  }

  private static String describe(ServiceInstance<Object> instance) {
    Object payload = instance.getPayload();
    // In the order of its keys, whatever the map.
    if (payload instanceof Map) payload = new TreeMap<Object, Object>((Map<?, ?>) payload);
    return instance.getId() + " " + instance.getServiceType() + " " + instance.isEnabled() + " "
        + instance.getAddress() + " " + instance.getPort() + " " + payload + " " + uri(instance);
  }

  private static void list(Collection<ServiceInstance<Object>> instances) {
    List<String> lines = new ArrayList<>();
    for (ServiceInstance<Object> instance : instances) lines.add(describe(instance));
    lines.sort(null);
    for (String line : lines) say(line);
  }

  private static ServiceCache<Object> cache(String service) throws Exception {
    ServiceCache<Object> known = caches.get(service);
    if (known != null) return known;
    ServiceCache<Object> cache = discovery.serviceCacheBuilder().name(service).build();
    cache.addListener(new ServiceCacheListener() {
      @Override
      public void cacheChanged() {
        synchronized (changed) {
          changed.notifyAll();
        }
      }

      @Override
      public void stateChanged(CuratorFramework client, ConnectionState state) {}
    });
    cache.start();
    caches.put(service, cache);
    return cache;
  }

  private static void obey(CuratorFramework client, String[] words) throws Exception {
    switch (words[0]) {
      case "register": {
        ServiceInstance<Object> instance = ServiceInstance.<Object>builder()
            .name(words[1]).id(words[2]).serviceType(ServiceType.valueOf(words[3]))
            .enabled(Boolean.parseBoolean(words[4])).payload(payload(words[5])).address("10.0.0.2").port(8080)
            .uriSpec(new UriSpec("{scheme}://{address}:{port}/{name}")).build();
        discovery.registerService(instance);
        registered.put(words[2], instance);
        break;
      }
      case "update": {
        ServiceInstance<Object> old = registered.get(words[2]);
        ServiceInstance<Object> instance = ServiceInstance.<Object>builder()
            .name(words[1]).id(words[2]).serviceType(old.getServiceType()).payload(words[3])
            .registrationTimeUTC(old.getRegistrationTimeUTC()).address("10.0.0.2").port(8080).build();
        discovery.updateService(instance);
        registered.put(words[2], instance);
        break;
      }
      case "unregister":
        discovery.unregisterService(registered.remove(words[2]));
        break;
      case "names":
        List<String> names = new ArrayList<>(discovery.queryForNames());
        names.sort(null);
        for (String name : names) say(name);
        break;
      case "list":
        list(discovery.queryForInstances(words[1]));
        break;
      case "cache": {
        ServiceCache<Object> cache = cache(words[1]);
        synchronized (changed) {
          while (cache.getInstances().size() != Integer.parseInt(words[2])) changed.wait(20);
        }
        list(cache.getInstances());
        break;
      }
      case "rewrite": {
        String path = "/services/" + words[1] + "/" + words[2];
        client.setData().forPath(path, serializer.serialize(serializer.deserialize(client.getData().forPath(path))));
        break;
      }
      default:
        throw new IllegalArgumentException(words[0]);
    }
  }

  public static void main(String[] arguments) throws Exception {
    CuratorFramework client = CuratorFrameworkFactory.newClient(arguments[0], 20000, 10000, new RetryOneTime(100));
    client.start();
    discovery = ServiceDiscoveryBuilder.builder(Object.class).client(client).basePath("/services")
        .serializer(serializer).build();
    discovery.start();
    BufferedReader input = new BufferedReader(new InputStreamReader(System.in));
    for (String line = input.readLine(); line != null; line = input.readLine()) {
      try {
        obey(client, line.split(" "));
      } catch (Exception problem) {
        say("failed " + problem);
      }
      say("done");
    }
    discovery.close();
    client.close();
  }
}
