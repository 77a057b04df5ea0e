import java.io.IOException;
import java.util.Map;
import javax.management.JMException;
import javax.management.JMRuntimeException;
import javax.management.MBeanServerConnection;
import javax.management.ObjectName;
import javax.management.remote.JMXConnectorFactory;
import javax.management.remote.JMXServiceURL;

/**
 * Flushes the sieve of a BUbiNG agent twice a second, and ends when the agent has asked for nothing for ten seconds.
 * Usage: java Flush.java PORT, the port of the agent's JMX server on 127.0.0.1. It waits a minute for the agent to start.
 */
class Flush {
	public static void main(String[] args) throws Exception {
		JMXServiceURL url = new JMXServiceURL("service:jmx:rmi:///jndi/rmi://127.0.0.1:" + args[0] + "/jmxrmi");
		MBeanServerConnection server = null;
		ObjectName agent = null;
		long requests = 0;
		for (int quiet = 0, failed = 0; quiet < 20; Thread.sleep(500)) {
			try {
				if (server == null) server = JMXConnectorFactory.connect(url, Map.of()).getMBeanServerConnection();
				if (agent == null) agent = server.queryNames(new ObjectName("it.unimi.di.law.bubing:*"), null).iterator().next();
				server.invoke(agent, "flush", null, null);
				long now = (Long) server.getAttribute(agent, "requests");
				quiet = now > 0 && now == requests ? quiet + 1 : 0;
				requests = now;
			} catch (IOException | JMException | JMRuntimeException | java.util.NoSuchElementException e) {
				if (requests > 0 || ++failed == 120) throw e;
			}
		}
	}
}
