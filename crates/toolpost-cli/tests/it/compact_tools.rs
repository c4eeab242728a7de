//! The compact MCP tools with a large OpenAPI document: `hub__list`, `hub__search`, `hub__schema`.

use serde_json::{Map, Value, json};

use super::TempFolder;
use super::mcp::Gateway;
use super::process::wait_until;

const ACTIONS: [&str; 20] = [
    "list",
    "get",
    "create",
    "update",
    "delete",
    "search",
    "archive",
    "restore",
    "export",
    "import",
    "approve",
    "reject",
    "assign",
    "unassign",
    "lock",
    "unlock",
    "duplicate",
    "merge",
    "publish",
    "audit",
];

const RESOURCES: [&str; 60] = [
    "invoice",
    "payment",
    "refund",
    "customer",
    "order",
    "shipment",
    "product",
    "warehouse",
    "supplier",
    "contract",
    "subscription",
    "coupon",
    "tax_rate",
    "ledger",
    "budget",
    "expense",
    "employee",
    "payroll",
    "timesheet",
    "vacation",
    "project",
    "milestone",
    "ticket",
    "comment",
    "attachment",
    "workflow",
    "webhook",
    "report",
    "dashboard",
    "metric",
    "alert",
    "incident",
    "deployment",
    "release",
    "branch",
    "repository",
    "pipeline",
    "artifact",
    "environment",
    "secret",
    "team",
    "role",
    "permission",
    "session",
    "device",
    "campaign",
    "segment",
    "newsletter",
    "survey",
    "lead",
    "meeting",
    "calendar",
    "room",
    "booking",
    "vehicle",
    "route",
    "sensor",
    "firmware",
    "license",
    "certificate",
];

/// Returns a document of 1,200 operations whose schemas refer to each other.
fn document() -> Value {
    let mut paths = Map::new();
    for resource in RESOURCES {
        for action in ACTIONS {
            paths.insert(
                format!("/{resource}/{action}"),
                json!({"post": operation(resource, action)}),
            );
        }
    }
    let schemas = RESOURCES.map(|resource| (resource.to_owned(), resource_schema(resource)));
    let schemas = schemas.into_iter().chain(shared_schemas());
    json!({
        "openapi": "3.1.0",
        "info": {"title": "Back office", "version": "1"},
        "servers": [{"url": "http://127.0.0.1:9"}],
        "paths": paths,
        "components": {"schemas": schemas.collect::<Map<_, _>>()},
    })
}

fn operation(resource: &str, action: &str) -> Value {
    let schema = json!({"$ref": format!("#/components/schemas/{resource}")});
    let header = |name: &str| {
        json!({"name": name, "in": "header", "schema": {"type": "string", "maxLength": 255},
            "description": format!("The {name} of the request, recorded with every change of the {resource}.")})
    };
    json!({
        "operationId": format!("{resource}/{action}"),
        "summary": format!("{action} a {resource}"),
        "description": format!(
            "Performs the action {action} on a {resource} of the account. The caller needs the \
             permission `{resource}:{action}` in the organization that owns the {resource}.\n\n\
             > [!NOTE]\n> Changes become visible to other users within a few seconds. A {resource} \
             that is locked by an approval cannot be changed until the approval is complete."
        ),
        "tags": [resource],
        "parameters": [
            {"name": "account", "in": "query", "required": true, "schema": {"type": "string"},
                "description": "The account that owns the resource. The name is not case sensitive."},
            {"name": "page", "in": "query", "schema": {"type": "integer", "default": 1, "minimum": 1},
                "description": "The page of the results, starting at 1, if there are several."},
            header("correlation"),
            header("reason"),
        ],
        "requestBody": {"required": true, "content": {"application/json": {"schema": {
            "type": "object", "required": [resource],
            "properties": {resource: schema, "notify": {"type": "array", "items":
                {"$ref": "#/components/schemas/person"}}}}}}},
        "responses": {"200": {"description": "The changed resources", "content":
            {"application/json": {"schema": {"type": "array", "items": schema}}}}},
    })
}

fn resource_schema(resource: &str) -> Value {
    let text = |name: &str| {
        let schema = json!({"type": "string", "maxLength": 1000, "description": format!(
            "The {name} of the {resource}, as it is shown to the users of the organization.")});
        (name.to_owned(), schema)
    };
    let reference = |name: &str, target: &str| {
        (name.to_owned(), json!({"$ref": format!("#/components/schemas/{target}")}))
    };
    let texts = ["id", "title", "summary", "state", "category", "reference", "locale", "notes"];
    let properties = texts.into_iter().map(text).chain([
        reference("owner", "person"),
        reference("history", "history"),
        reference("billing", "billing"),
    ]);
    json!({"type": "object", "required": ["id", "title"], "properties": properties.collect::<Map<_, _>>(),
        "description": format!("A {resource} with its owner, its history and how it is billed.")})
}

/// Returns schemas that nest several levels deep and refer back to each other.
fn shared_schemas() -> impl Iterator<Item = (String, Value)> {
    let schema = |name: &str, texts: &[&str], references: &[(&str, &str)]| {
        let texts = texts.iter().map(|text| {
            let description = format!("The {text} of the {name}. It is empty if it is not known.");
            ((*text).to_owned(), json!({"type": ["string", "null"], "description": description}))
        });
        let references = references.iter().map(|(property, target)| {
            let target = json!({"$ref": format!("#/components/schemas/{target}")});
            ((*property).to_owned(), json!({"type": "array", "items": target}))
        });
        let properties: Map<_, _> = texts.chain(references).collect();
        (name.to_owned(), json!({"type": "object", "properties": properties}))
    };
    [
        schema(
            "person",
            &["name", "email", "phone", "title"],
            &[("teams", "group"), ("home", "address")],
        ),
        schema("group", &["name", "purpose"], &[("members", "person"), ("budget", "billing")]),
        schema(
            "billing",
            &["currency", "plan", "vat", "iban"],
            &[("address", "address"), ("lines", "line")],
        ),
        schema("address", &["street", "city", "postcode", "country"], &[("contact", "person")]),
        schema("line", &["label", "amount", "unit", "rate"], &[("discounts", "discount")]),
        schema("discount", &["code", "percent"], &[("granted_by", "person")]),
        schema("history", &["action", "at", "comment"], &[("by", "person"), ("changes", "change")]),
        schema("change", &["field", "before", "after"], &[("part_of", "history")]),
    ]
    .into_iter()
}

/// A gateway with the document as its source.
struct LargeService {
    gateway: Gateway,
    _folder: TempFolder,
}

impl LargeService {
    fn start(name: &str) -> Self {
        Self::start_with(TempFolder::new(name), &document())
    }

    fn start_with(folder: TempFolder, document: &Value) -> Self {
        folder.write("service.json", &document.to_string());
        folder.write(
            "toolpost.toml",
            "[source.office]\nopenapi = \"service.json\"\naccess = \"open\"\n",
        );
        let gateway = Gateway::start(&folder);
        wait_until("the source is ready", || {
            let (_, listed) = gateway.post("/api/hub/list", &json!({"namespace": "office"}));
            listed.contains("office.")
        });
        Self { gateway, _folder: folder }
    }

    /// Sends an MCP request and returns the size of the response body and its result.
    fn request(&self, query: &str, method: &str, params: &Value) -> (usize, Value) {
        let request = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params});
        let (_, body) = self.gateway.post(&format!("/mcp{query}"), &request);
        (body.len(), serde_json::from_str::<Value>(&body).unwrap()["result"].take())
    }

    /// Calls a compact tool and returns the size of the response and the text of the result.
    fn call(&self, name: &str, arguments: &Value) -> (usize, String) {
        let (size, result) =
            self.request("", "tools/call", &json!({"name": name, "arguments": arguments}));
        assert_eq!(result.get("structuredContent"), None, "{result}");
        let [block] = result["content"].as_array().unwrap().as_slice() else { panic!("{result}") };
        (size, block["text"].as_str().unwrap().to_owned())
    }
}

#[test]
fn compact_mcp_results_fit_a_fraction_of_the_tool_list() {
    let service = LargeService::start("compact-tools");
    let (mut all, mut params, mut names) = (0, json!({}), Vec::new());
    loop {
        let (size, page) = service.request("?tools=all", "tools/list", &params);
        all += size;
        let tools = page["tools"].as_array().unwrap();
        names.extend(tools.iter().map(|tool| tool["name"].as_str().unwrap().to_owned()));
        match &page["nextCursor"] {
            Value::Null => break,
            cursor => params = json!({"cursor": cursor}),
        }
    }
    assert_eq!(names.iter().filter(|name| name.starts_with("office__")).count(), 1_200);
    assert!(names.iter().all(|name| !name.starts_with("demo__")), "{names:?}");

    let (tools, listed) = service.request("", "tools/list", &json!({}));
    let listed = listed["tools"].as_array().unwrap();
    assert_eq!(listed.len(), 4);
    assert!(listed.iter().all(|tool| tool.get("outputSchema").is_none()), "{listed:?}");
    let full = &listed.iter().find(|tool| tool["name"] == "hub__schema").unwrap()["inputSchema"];
    assert_eq!(full["properties"]["full"]["default"], false, "{full}");
    let (list, names) = service.call("hub__list", &json!({}));
    let (search, hits) = service.call("hub__search", &json!({"query": "approve an invoice"}));
    let (schema, input) = service.call("hub__schema", &json!({"id": "office.invoice/approve"}));
    let spent = tools + list + search + schema;
    assert!(spent * 500 <= all, "{tools} + {list} + {search} + {schema} of {all} bytes");

    assert!(
        names.starts_with("operations by namespace: hub 5, office 1200\nhub:\ncall\n"),
        "{names}"
    );
    assert!(names.contains("\noffice:\nalert/approve\n"), "{names}");
    let cursor = names.rsplit_once("call again with cursor ").unwrap().1;
    let cursor: Value = serde_json::from_str(cursor).unwrap();
    let (_, next) = service.call("hub__list", &json!({"cursor": cursor, "namespace": "office"}));
    assert!(next.starts_with("office:\n") && !next.contains("\nalert/approve\n"), "{next}");

    let hits: Vec<&str> = hits.lines().collect();
    let expected = "office.invoice/approve: Performs the action approve on a invoice of the account. \
                    (account, body)";
    assert_eq!(hits[0], expected);
    assert_eq!(hits.len(), 21, "twenty hits and the number of others: {hits:?}");
    assert!(hits.iter().all(|line| line.len() < 200), "{hits:?}");

    let lines: Vec<&str> = input.lines().collect();
    assert_eq!(lines[0], "office.invoice/approve [mutation]");
    assert!(lines[1].starts_with("Performs the action approve") && lines[1].len() < 450, "{input}");
    assert_eq!(
        lines[2..4],
        ["input: {", "  account: string // The account that owns the resource."]
    );
    for line in
        ["    invoice: {", "      id: string // ", "  page?: integer // default 1; The page"]
    {
        assert!(lines.iter().any(|one| one.starts_with(line)), "{line} in {input}");
    }
}

/// Each row: what a search term is found in, the term, and the operation that is listed first.
#[test]
fn compact_search_ranks_by_every_field() {
    let folder = TempFolder::new("compact-ranking");
    let operation = |id: &str, description: &str, tag: &str, parameter: &str| {
        let parameters = json!([{"name": parameter, "in": "query", "schema": {"type": "string"}}]);
        let responses = json!({"200": {"description": "done"}});
        json!({"post": {"operationId": id, "description": description, "tags": [tag],
            "parameters": parameters, "responses": responses}})
    };
    let mut paths: Map<String, Value> = (0..40)
        .map(|n| (format!("/{n}"), operation(&format!("job{n}"), "Runs a job.", "work", "page")))
        .collect();
    paths.insert("/named".into(), operation("telescope", "Runs a job.", "work", "page"));
    paths.insert(
        "/described".into(),
        operation("a", "Points a telescope at a comet.", "work", "page"),
    );
    paths.insert("/tagged".into(), operation("b", "Runs a job.", "galaxy", "page"));
    paths.insert("/with".into(), operation("c", "Runs a job.", "work", "aperture"));
    let document = json!({"openapi": "3.1.0", "info": {"title": "Jobs", "version": "1"},
        "servers": [{"url": "http://127.0.0.1:9"}], "paths": paths});
    let service = LargeService::start_with(folder, &document);
    for (field, query, expected) in [
        ("name before description", "telescope", "office.telescope: "),
        ("description", "comet", "office.a: "),
        ("tag", "galaxy", "office.b: "),
        ("parameter", "aperture", "office.c: "),
        ("rare term before common term", "job comet", "office.a: "),
    ] {
        let (_, hits) = service.call("hub__search", &json!({"query": query}));
        assert!(hits.starts_with(expected), "{field}: {hits}");
    }
}

/// Each row: a tool and its arguments, and a member of the structured data.
#[test]
fn compact_mcp_tools_return_full_data_on_request() {
    let service = LargeService::start("compact-full");
    for (name, arguments, member) in [
        ("hub__list", json!({"full": true}), "/operations/0/description"),
        ("hub__search", json!({"query": "invoice", "full": true}), "/operations/0/tags"),
        ("hub__schema", json!({"id": "office.invoice/get", "full": true}), "/outputSchema/items"),
    ] {
        let params = json!({"name": name, "arguments": arguments});
        let (_, result) = service.request("", "tools/call", &params);
        let data = &result["structuredContent"];
        assert!(data.pointer(member).is_some(), "{name}: {data}");
        // The same over HTTP, where structured data is the default.
        let path = name.replacen("__", "/", 1);
        for (full, is_text) in [(None, false), (Some(true), false), (Some(false), true)] {
            let mut input = arguments.clone();
            input["full"] = full.unwrap_or_default().into();
            if full.is_none() {
                input.as_object_mut().unwrap().remove("full");
            }
            let (status, body) = service.gateway.post(&format!("/api/{path}"), &input);
            let output: Value = serde_json::from_str(&body).unwrap();
            assert_eq!((status, output.is_string()), (200, is_text), "{name} {full:?}: {body}");
            assert_eq!(output.pointer(member).is_some(), !is_text, "{name} {full:?}");
        }
    }
}

/// Demo operations are offered only as long as there is nothing else. Each row: a configuration,
/// and whether clients find the demo operations through the tool list and through search.
#[test]
fn demo_tools_are_unlisted_once_a_source_is_configured() {
    let source = "[source.office]\nopenapi = \"service.json\"\naccess = \"open\"\n";
    let folder = TempFolder::new("compact-demo");
    folder.write("service.json", &document().to_string());
    for (config, is_offered) in [("", true), (source, false), ("# none\n", true)] {
        folder.write("toolpost.toml", config);
        let service =
            LargeService { gateway: Gateway::start(&folder), _folder: TempFolder::new("none") };
        let (_, listed) = service.request("?tools=all", "tools/list", &json!({}));
        let listed = listed["tools"].to_string();
        assert_eq!(listed.contains("demo__add"), is_offered, "{config}: {listed}");
        for (name, arguments) in [
            ("hub__list", json!({})),
            ("hub__list", json!({"namespace": "demo"})),
            ("hub__search", json!({"query": "demo add two numbers"})),
        ] {
            let (_, text) = service.call(name, &arguments);
            assert_eq!(text.contains("demo"), is_offered, "{config} {name}: {text}");
        }
        let (_, own) = service.request("?tools=all&source=demo", "tools/list", &json!({}));
        assert_eq!(own["tools"][0]["name"], "add", "{config}: an explicit selection");
        // They stay available, so that a reload does not fail calls.
        let add = json!({"name": "demo__add", "arguments": {"a": 1, "b": 2}});
        let (_, sum) = service.request("", "tools/call", &add);
        assert_eq!(sum["structuredContent"], json!({"sum": 3}));
        let (status, sum) = service.gateway.post("/api/demo/add", &json!({"a": 1, "b": 2}));
        assert_eq!((status, &*sum), (200, r#"{"sum":3}"#));
    }
}
