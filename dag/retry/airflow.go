package retry

import (
	"crypto/sha1" //nolint:gosec // Airflow's jitter is made from SHA-1; nothing is protected by it
	"math"
	"math/big"
	"strconv"
	"strings"
	"time"

	"github.com/airlock-dag/airlock/dag"
)

// Limit is the longest delay of an exponential policy that sets no cap of its
// own; Airflow's max_task_retry_delay has the same value.
const Limit = 24 * time.Hour

// AirflowInput is what Airflow's formula looks at.
type AirflowInput struct {
	DagID, TaskID string
	// LogicalDate of the run, nil when it has none.
	LogicalDate *time.Time
	// Try is the number of the attempt that just failed, from 1.
	Try int
	// Delay is retry_delay, MaxDelay is max_retry_delay (0 for none).
	Delay, MaxDelay time.Duration
	// Exponential is the multiplier: 2 for true. The backoff is off for 0, 1 and
	// what is negative or no number.
	Exponential float64
	// Legacy hashes as releases before 2.10 did, with the try number one higher.
	Legacy bool
}

// reportedBase is the greatest base that is reported as it is; a greater one
// (31 years) counts as Limit, which the delay is cut to anyway.
const reportedBase = 1_000_000_000

// AirflowDelay is the delay that Airflow gives the same task instance. It is
// the same wherever and whenever it is computed: the jitter comes from a hash.
func AirflowDelay(in AirflowInput) Delay {
	if m := in.Exponential; !(m > 0) || m == 1 {
		d := max(in.Delay, 0)
		return Delay{Base: d, Ceiling: d, Delay: d, Source: SourceAirflow}
	}
	try := max(in.Try, 1)
	base := backoffSeconds(in.Delay, in.Exponential, try-1)
	extra := jitter(in, try, base)
	ceiling := min(time.Duration(2*base-1)*time.Second, Limit)
	delay := min(time.Duration(base+extra)*time.Second, Limit)
	if in.MaxDelay > 0 {
		ceiling, delay = min(ceiling, in.MaxDelay), min(delay, in.MaxDelay)
	}
	return Delay{
		Base: time.Duration(base) * time.Second, Jitter: time.Duration(extra) * time.Second,
		Ceiling: ceiling, Delay: delay, Source: SourceAirflow,
	}
}

// backoffSeconds is ceil(delay * multiplier^exponent), at least 1.
func backoffSeconds(delay time.Duration, multiplier float64, exponent int) int64 {
	seconds := float64(max(delay, 0).Microseconds()) / 1e6
	base := math.Ceil(seconds * power(multiplier, exponent))
	switch {
	case math.IsNaN(base) || base > reportedBase:
		return int64(Limit / time.Second)
	case base < 1:
		return 1
	default:
		return int64(base)
	}
}

// power is x^n rounded once, as the C library that Airflow stands on gives it
// almost always; math.Pow may be off by the last bit, and rounding up would
// turn that into a second. x is positive; the result may be infinite.
func power(x float64, n int) float64 {
	const precision = 320
	if math.IsInf(x, 1) {
		return math.Pow(x, float64(n))
	}
	square := new(big.Float).SetPrec(precision).SetFloat64(x)
	product := new(big.Float).SetPrec(precision).SetInt64(1)
	for ; n > 0; n >>= 1 {
		if n&1 == 1 {
			product.Mul(product, square)
		}
		if n > 1 {
			square.Mul(square, square)
		}
	}
	f, _ := product.Float64()
	return f
}

// jitter hashes who failed and when.
func jitter(in AirflowInput, try int, base int64) int64 {
	if in.Legacy {
		try++
	}
	date := "None"
	if in.LogicalDate != nil {
		date = dag.PythonTime(*in.LogicalDate, " ")
	}
	return HashSeconds(in.DagID, in.TaskID, date, try, base)
}

// HashSeconds is the jitter that Airflow adds to a wait of base seconds (at
// least 1): SHA-1 of "dag#task#date#count" modulo base. The date is a text as
// Python prints it. Retries and sensors share it.
func HashSeconds(dagID, taskID, date string, count int, base int64) int64 {
	text := strings.Join([]string{dagID, taskID, date, strconv.Itoa(count)}, "#")
	sum := sha1.Sum([]byte(text)) //nolint:gosec // see the import
	h := new(big.Int).SetBytes(sum[:])
	return h.Mod(h, big.NewInt(base)).Int64()
}
