package load

// checkTopLevel reports the keys beside the DAGs.
func (l *loader) checkTopLevel(src *source, f field) {
	switch f.name {
	case "default":
		if !f.val.null() {
			l.checkDAGKeys(src.rep, f.val, "default")
		}
	case "task_groups":
		src.rep.warn(f.key, f.name, codeMisplacedKey, "task_groups has no effect beside the DAGs", "put it inside a DAG")
	case "policies", "circuits":
		src.rep.err(f.key, f.name, codeMisplacedKey, f.name+" cannot stand beside the DAGs", "put it under default:, or in a file policies.yml")
	default:
		src.rep.err(f.key, f.name, codeMisplacedKey, f.name+" is a key of a DAG and stands beside the DAGs", "put it under the DAG's id")
	}
}

// checkDAGKeys reports unknown keys of a DAG or of a layer under it.
func (l *loader) checkDAGKeys(rep *report, n *node, path string) {
	rep.checkKeys(n, path, "a DAG", l.keys.dag, func(f field) bool {
		if info := l.keys.defaultArgs[f.name]; l.keys.dag[f.name].kind == noKey && info.kind == used {
			rep.err(f.key, join(path, f.name), codeMisplacedKey, f.name+" is not a key of a DAG", "put it under default_args, or on a task")
			return true
		}
		return false
	}, nil)
	if args := n.get("default_args"); !args.null() {
		l.checkDefaultArgs(rep, args, join(path, "default_args"))
	}
}

// checkDefaultArgs reports unknown keys of default_args: they may hold what
// every task has, and any key of any operator.
func (l *loader) checkDefaultArgs(rep *report, n *node, path string) {
	rep.checkKeys(n, path, "default_args", l.keys.defaultArgs, func(f field) bool {
		if l.keys.defaultArgs[f.name].kind != noKey || l.ops.anyField[f.name] {
			return l.ops.anyField[f.name]
		}
		if l.keys.dag[f.name].kind == used {
			rep.warn(f.key, join(path, f.name), codeMisplacedKey, f.name+" has no effect under default_args", "put it under the DAG itself")
			return true
		}
		return false
	}, l.ops.fieldNames)
}

// checkSettings reports what is wrong in defaults.yml and policies.yml files
// whether or not a DAG uses them.
func (l *loader) checkSettings() {
	policyFile := keyTable{}
	policyFile.add(used, "", "policies circuits")
	for _, src := range l.sources {
		if src.root == nil {
			continue
		}
		switch settingsName(src.path) {
		case "defaults":
			l.checkDAGKeys(src.rep, src.root, "")
		case "policies":
			src.rep.checkKeys(src.root, "", "a policies file", policyFile, nil, nil)
			b := &builder{l: l, opts: l.opts, src: src, rep: src.rep, zones: l.zones}
			b.readPolicies(src.root.get("policies"), "policies")
			b.readCircuits(src.root.get("circuits"), "circuits")
		}
	}
}
