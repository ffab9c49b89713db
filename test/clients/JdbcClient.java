// What pgjdbc tells a tool of the schema bi (DBeaver, Metabase, Looker, Tableau over JDBC) through DatabaseMetaData: printed as JSON for run.ts.
import java.net.URI;
import java.sql.Connection;
import java.sql.DatabaseMetaData;
import java.sql.DriverManager;
import java.sql.ResultSet;
import java.sql.Statement;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.TreeMap;

class JdbcClient {
  public static void main(String[] arguments) throws Exception {
    URI url = new URI(arguments[0]);
    String[] login = url.getUserInfo().split(":", 2);
    Properties properties = new Properties();
    properties.setProperty("user", login[0]);
    properties.setProperty("password", login[1]);
    String address = "jdbc:postgresql://" + url.getHost() + ":" + url.getPort() + url.getPath();
    try (Connection connection = DriverManager.getConnection(address, properties)) {
      DatabaseMetaData about = connection.getMetaData();
      Map<String, Object> relations = new TreeMap<>();
      try (ResultSet tables = about.getTables(null, "bi", "%", new String[] {"TABLE", "VIEW"})) {
        while (tables.next()) relations.put(tables.getString("TABLE_NAME"), relation(about, tables));
      }
      Map<String, Object> printed = new LinkedHashMap<>();
      printed.put("client", "pgjdbc " + about.getDriverVersion());
      printed.put("relations", relations);
      printed.put("values", values(connection, arguments[1]));
      System.out.println(json(printed));
    }
  }

  static Map<String, Object> relation(DatabaseMetaData about, ResultSet table) throws Exception {
    String name = table.getString("TABLE_NAME");
    Map<String, Object> relation = new LinkedHashMap<>();
    relation.put("kind", table.getString("TABLE_TYPE").toLowerCase());
    relation.put("comment", table.getString("REMARKS"));
    List<Object> columns = new ArrayList<>();
    try (ResultSet one = about.getColumns(null, "bi", name, "%")) {
      while (one.next()) {
        Map<String, Object> column = new LinkedHashMap<>();
        column.put("name", one.getString("COLUMN_NAME"));
        column.put("type", one.getString("TYPE_NAME"));
        column.put("comment", one.getString("REMARKS"));
        columns.add(column);
      }
    }
    Map<Integer, Object> key = new TreeMap<>();
    try (ResultSet one = about.getPrimaryKeys(null, "bi", name)) {
      while (one.next()) key.put(one.getInt("KEY_SEQ"), one.getString("COLUMN_NAME"));
    }
    List<Object> foreign = new ArrayList<>();
    try (ResultSet one = about.getImportedKeys(null, "bi", name)) {
      while (one.next())
        foreign.add(one.getString("FKCOLUMN_NAME") + " -> " + one.getString("PKTABLE_SCHEM") + "." + one.getString("PKTABLE_NAME")
            + "(" + one.getString("PKCOLUMN_NAME") + ")");
    }
    relation.put("columns", columns);
    relation.put("primaryKey", new ArrayList<>(key.values()));
    relation.put("foreignKeys", foreign);
    return relation;
  }

  static List<Object> values(Connection connection, String query) throws Exception {
    List<Object> values = new ArrayList<>();
    try (Statement statement = connection.createStatement(); ResultSet row = statement.executeQuery(query)) {
      row.next();
      for (int at = 1; at <= row.getMetaData().getColumnCount(); at++) {
        Object value = row.getObject(at);
        values.add(value == null ? null : List.of(value.getClass().getSimpleName(), value.toString()));
      }
    }
    return values;
  }

  static String json(Object value) {
    if (value == null) return "null";
    if (value instanceof Map<?, ?> map) {
      List<String> parts = new ArrayList<>();
      map.forEach((key, one) -> parts.add(json(key) + ":" + json(one)));
      return "{" + String.join(",", parts) + "}";
    }
    if (value instanceof List<?> list) return "[" + String.join(",", list.stream().map(JdbcClient::json).toList()) + "]";
    StringBuilder text = new StringBuilder("\"");
    for (char one : value.toString().toCharArray())
      text.append(one == '"' || one == '\\' ? "\\" + one : one < 32 || one > 126 ? String.format("\\u%04x", (int) one) : String.valueOf(one));
    return text.append('"').toString();
  }
}
