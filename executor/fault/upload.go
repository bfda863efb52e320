package fault

import "github.com/airlock-dag/airlock/dag"

// uploadCodes are what the step upload says of a store and of what is in it.
func uploadCodes() []Code {
	const (
		transient = dag.ClassTransient
		permanent = dag.ClassPermanent
		config    = dag.ClassConfiguration
	)
	return []Code{
		{CodeObjectExists, permanent, "", "the key holds something else already, and overwrite is off", "compare the two; use a key that is made from the content, or set overwrite: true"},
		{CodeUploadMismatch, permanent, "", "what the store holds after the upload is not what was sent", "look at the store and at what stands between it and the worker; remove the object before a replay"},
		{CodeDigestRefused, transient, "", "the store received other bytes than were sent", ""},
		{CodeUploadLost, transient, "", "the store ended the unfinished upload: another worker or its own clean-up", ""},
		{CodeBucketMissing, config, "", "there is no such bucket", "make the bucket, or correct its name and the connection's endpoint_url and region_name"},
		{CodeSlowDown, transient, dag.BudgetThrottling, "the store asks for fewer requests", "lower requests_per_second, bytes_per_second or parallel"},
	}
}
