(** A Gaussian release of a Poisson sample, at whole orders and in both directions.

    Any function of a sample is released, certified, with discrete Gaussian noise. Without one record
    the sample is T with probability w(T), and the release is around v(T); with the record, which is
    sampled at rate q, it is around u(T) at that rate. Then the moment of order n is at most

        sum over j of C(n, j) (1 - q)^(n - j) q^j e^(j (j - 1) rho / 2),

    rho the squared distance of u(T) and v(T) over the noise's variance, whichever of the two data
    sets comes first. That adding costs no more than removing needs no analysis: reflecting the
    lattice exchanges u(T) and v(T), and an induction on the order does the rest. *)

From Coq Require Import Reals List Lra Lia ZArith Psatz FinFun Qreals.
From Weir Require Import Python Code Certificate Sums DiscreteGaussian Filter Release.
Import ListNotations.
Open Scope R_scope.

(** b (a / b)^n, a moment's part at a whole order. *)
Definition whole (n : nat) (a b : R) : R := b * (a / b) ^ n.

Lemma part_whole n a b : 0 < a -> 0 < b -> part (INR n) a b = whole n a b.
Proof.
  intros Ha Hb. unfold part, whole. destruct (Rlt_dec 0 a) as [_ | H]; [ | contradiction ].
  unfold Rminus. rewrite Rpower_plus, Rpower_1, Rpower_Ropp, !Rpower_pow by assumption.
  unfold Rdiv. rewrite Rpow_mult_distr, pow_inv. ring.
Qed.

Lemma whole_nonneg n a b : 0 < a -> 0 < b -> 0 <= whole n a b.
Proof. intros Ha Hb. apply Rmult_le_pos; [ lra | ]. apply pow_le, Rlt_le, Rdiv_lt_0_compat; assumption. Qed.

Lemma bernoulli n t : 0 <= t -> 1 + INR n * (t - 1) <= t ^ n.
Proof.
  intros Ht. induction n as [ | n IH ]; [ cbn; lra | ]. rewrite S_INR. cbn [pow].
  assert (H := Rmult_le_compat_l t _ _ Ht IH). assert (Hn := pos_INR n).
  assert (0 <= INR n * ((t - 1) * (t - 1))) by (apply Rmult_le_pos; [ exact Hn | apply Rle_0_sqr ]). nra.
Qed.

(** ** Mixtures of samples cost no more than the worst of them *)

Lemma finite_sum_pos {K} (f : K -> R) l : l <> [] -> (forall k, 0 < f k) -> 0 < finite_sum f l.
Proof.
  intros Hl Hf. destruct l as [ | k l ]; [ congruence | ]. cbn. specialize (Hf k) as Hk.
  assert (0 <= finite_sum f l) by (apply finite_sum_nonneg; intros i; apply Rlt_le, Hf). lra.
Qed.

Lemma radon {K} n (w a b : K -> R) l : l <> [] -> (forall k, 0 < w k) -> (forall k, 0 < a k) -> (forall k, 0 < b k) ->
  whole n (finite_sum (fun k => w k * a k) l) (finite_sum (fun k => w k * b k) l)
    <= finite_sum (fun k => w k * whole n (a k) (b k)) l.
Proof.
  intros Hl Hw Ha Hb.
  set (A := finite_sum (fun k => w k * a k) l). set (B := finite_sum (fun k => w k * b k) l).
  assert (HA : 0 < A) by (apply finite_sum_pos; [ exact Hl | intros; now apply Rmult_lt_0_compat ]).
  assert (HB : 0 < B) by (apply finite_sum_pos; [ exact Hl | intros; now apply Rmult_lt_0_compat ]).
  set (s := A / B). assert (Hs : 0 < s) by now apply Rdiv_lt_0_compat.
  assert (Hsn : 0 < s ^ n) by now apply pow_lt.
  apply Rle_trans with (finite_sum (fun k => s ^ n * (1 - INR n) * (w k * b k) + s ^ n * INR n / s * (w k * a k)) l).
  - rewrite finite_sum_plus, !finite_sum_scale. fold A B. unfold whole. fold s. right.
    replace A with (s * B) by (unfold s; field; lra). field. lra.
  - apply finite_sum_le. intros k _. specialize (Hw k). specialize (Ha k). specialize (Hb k).
    assert (Ht : 0 < a k / b k / s) by (repeat apply Rdiv_lt_0_compat; assumption).
    assert (H := bernoulli n (a k / b k / s) (Rlt_le _ _ Ht)).
    unfold whole. replace (a k / b k) with (s * (a k / b k / s)) by (field; lra).
    rewrite Rpow_mult_distr.
    replace (s ^ n * (1 - INR n) * (w k * b k) + s ^ n * INR n / s * (w k * a k))
      with (w k * (b k * (s ^ n * (1 + INR n * (a k / b k / s - 1))))) by (field; lra).
    apply Rmult_le_compat_l; [ lra | ]. apply Rmult_le_compat_l; [ lra | ]. apply Rmult_le_compat_l; lra.
Qed.

(** ** One sample *)

Definition mix (q p p' : R) : R := (1 - q) * p' + q * p.

Definition sampled_moment (n : nat) (q rho : R) : R :=
  sum_f_R0 (fun j => C n j * q ^ j * (1 - q) ^ (n - j) * exp (INR j * (INR j - 1) * rho / 2)) n.

Lemma finite_sum_of_sums {I} (f : nat -> I -> R) n l :
  finite_sum (fun i => sum_f_R0 (fun j => f j i) n) l = sum_f_R0 (fun j => finite_sum (f j) l) n.
Proof.
  induction l as [ | i l IH ]; cbn [finite_sum].
  - induction n as [ | n IHn ]; cbn; [ reflexivity | rewrite <- IHn; lra ].
  - rewrite IH, <- sum_plus. reflexivity.
Qed.

Lemma law_pos sigma t0 d u x : sums_to (bell (/ (2 * sigma ^ 2)) 0) t0 -> 0 < law sigma t0 d u x.
Proof. intros H. apply masses_pos, (theta_pos _ _ _ H). Qed.

Lemma powers_bounded sigma t0 d u v rho j l : 0 < sigma -> sums_to (bell (/ (2 * sigma ^ 2)) 0) t0 ->
  squared_distance d u v <= rho * sigma ^ 2 -> NoDup l ->
  finite_sum (fun x => whole j (law sigma t0 d u x) (law sigma t0 d v x)) l <= exp (INR j * (INR j - 1) * rho / 2).
Proof.
  intros Hsigma Ht0 Hd Hl. destruct (gaussian_renyi sigma t0 (INR j) d u v Hsigma Ht0) as (s & Hs & Hle).
  rewrite (finite_sum_ext _ (fun x => moment (INR j) (law sigma t0 d u x) (law sigma t0 d v x))).
  2: { intros x. assert (Hu := law_pos sigma t0 d u x Ht0). assert (Hv := law_pos sigma t0 d v x Ht0).
       rewrite <- part_whole by assumption. unfold part. destruct (Rlt_dec 0 (law sigma t0 d u x)); [ reflexivity | contradiction ]. }
  eapply Rle_trans; [ apply (sums_upper _ _ l Hs Hl) | ]. eapply Rle_trans; [ exact Hle | ]. apply exp_le_exp.
  assert (Hs2 : 0 < sigma ^ 2) by now apply pow_lt.
  assert (Hj : 0 <= INR j * (INR j - 1)).
  { destruct j as [ | j ]; [ cbn; lra | ]. rewrite S_INR. assert (H := pos_INR j). apply Rmult_le_pos; lra. }
  replace ((INR j - 1) * (INR j * squared_distance d u v / (2 * sigma ^ 2)))
    with (INR j * (INR j - 1) * (squared_distance d u v * / sigma ^ 2) / 2) by (field; lra).
  assert (Hratio : squared_distance d u v * / sigma ^ 2 <= rho).
  { apply (Rmult_le_reg_r (sigma ^ 2)); [ exact Hs2 | ]. rewrite Rmult_assoc, Rinv_l by lra. lra. }
  assert (H := Rmult_le_compat_l _ _ _ Hj Hratio). lra.
Qed.

(** The record is there and then it is not. *)
Lemma removing sigma t0 d u v q rho n l : 0 < sigma -> sums_to (bell (/ (2 * sigma ^ 2)) 0) t0 -> 0 < q < 1 ->
  squared_distance d u v <= rho * sigma ^ 2 -> NoDup l ->
  finite_sum (fun x => whole n (mix q (law sigma t0 d u x) (law sigma t0 d v x)) (law sigma t0 d v x)) l
    <= sampled_moment n q rho.
Proof.
  intros Hsigma Ht0 Hq Hd Hl.
  rewrite (finite_sum_ext _ (fun x => sum_f_R0 (fun j => C n j * q ^ j * (1 - q) ^ (n - j)
    * whole j (law sigma t0 d u x) (law sigma t0 d v x)) n)).
  2: { intros x. assert (Hv := law_pos sigma t0 d v x Ht0). unfold whole at 1, mix.
       replace (((1 - q) * law sigma t0 d v x + q * law sigma t0 d u x) / law sigma t0 d v x)
         with (q * (law sigma t0 d u x / law sigma t0 d v x) + (1 - q)) by (field; lra).
       rewrite binomial, scal_sum. apply sum_eq. intros j _. unfold whole. rewrite Rpow_mult_distr. ring. }
  rewrite (finite_sum_of_sums (fun j x => C n j * q ^ j * (1 - q) ^ (n - j) * whole j (law sigma t0 d u x) (law sigma t0 d v x))).
  unfold sampled_moment. apply sum_Rle. intros j Hj. rewrite finite_sum_scale. apply Rmult_le_compat_l.
  - assert (HC : 0 <= C n j). { unfold C. apply Rlt_le, Rdiv_lt_0_compat; [ apply INR_fact_lt_0 | ]. apply Rmult_lt_0_compat; apply INR_fact_lt_0. }
    apply Rmult_le_pos; [ apply Rmult_le_pos; [ exact HC | ] | ]; apply pow_le; lra.
  - now apply powers_bounded.
Qed.

(** Reflecting the lattice about the middle of two centres exchanges them. *)
Fixpoint reflected (d : nat) : point d -> point d -> point d -> point d :=
  match d with
  | O => fun _ _ _ => tt
  | S d => fun u v x => ((fst u + fst v - fst x)%Z, reflected d (snd u) (snd v) (snd x))
  end.

Lemma reflected_twice d u v x : reflected d u v (reflected d u v x) = x.
Proof.
  induction d as [ | d IH ]; cbn; [ now destruct x | ]. rewrite IH. destruct x as (x, y). cbn. f_equal. lia.
Qed.

Lemma reflected_law sigma t0 d u v x : law sigma t0 d u (reflected d u v x) = law sigma t0 d v x
  /\ law sigma t0 d v (reflected d u v x) = law sigma t0 d u x.
Proof.
  unfold law. generalize (/ (2 * sigma ^ 2)). intros lambda.
  induction d as [ | d IH ]; cbn; [ split; reflexivity | ].
  destruct (IH (snd u) (snd v) (snd x)) as [-> ->]. unfold mass, bell. rewrite minus_IZR, plus_IZR.
  split; do 4 f_equal; ring.
Qed.

(** For a = 1 - q + q r and b = 1 - q + q / r, by induction on the order. *)
Lemma both_ways q r n : 0 < q < 1 -> 0 < r ->
  let a := 1 - q + q * r in let b := 1 - q + q / r in
  (/ a) ^ n + r * (/ b) ^ n <= a ^ S n + r * b ^ S n.
Proof.
  intros Hq Hr. cbv zeta. set (a := 1 - q + q * r). set (b := 1 - q + q / r).
  assert (Hinv : 0 < / r) by now apply Rinv_0_lt_compat.
  assert (Ha : 0 < a) by (unfold a; nra). assert (Hb : 0 < b) by (unfold b, Rdiv; nra).
  assert (Hrb : r * (b - 1) = q * (1 - r)) by (unfold b; field; lra).
  assert (Hab : a * b >= 1).
  { unfold a, b. replace ((1 - q + q * r) * (1 - q + q / r)) with (1 + q * (1 - q) * ((r - 1) * (r - 1)) * / r) by (field; lra).
    assert (0 <= q * (1 - q) * ((r - 1) * (r - 1)) * / r); [ | lra ].
    apply Rmult_le_pos; [ apply Rmult_le_pos; [ nra | apply Rle_0_sqr ] | lra ]. }
  (* t + 1 / t grows from 1 on *)
  assert (Hgrow : forall x y m, 0 < x -> 0 < y -> x * y >= 1 -> y <= 1 -> (/ y) ^ m + y ^ m <= x ^ m + (/ x) ^ m).
  { intros x y m Hx Hy Hxy Hy1.
    assert (Hyx : / y <= x). { apply (Rmult_le_reg_r y); [ exact Hy | ]. rewrite Rinv_l by lra. lra. }
    set (s := (/ y) ^ m). set (t := x ^ m).
    assert (Hs1 : 1 <= s).
    { unfold s. apply pow_R1_Rle. rewrite <- Rinv_1. apply Rinv_le_contravar; lra. }
    assert (Hst : s <= t). { apply pow_incr. split; [ apply Rlt_le; now apply Rinv_0_lt_compat | exact Hyx ]. }
    assert (Hy' : y ^ m = / s) by (unfold s; rewrite pow_inv, Rinv_inv; reflexivity).
    assert (Hx' : (/ x) ^ m = / t) by (unfold t; apply pow_inv).
    rewrite Hy', Hx'.
    assert (Heq : t + / t - (s + / s) = (t - s) * (1 - / (s * t))) by (field; lra).
    assert (Hle : / (s * t) <= 1). { rewrite <- Rinv_1. apply Rinv_le_contravar; nra. }
    nra. }
  induction n as [ | n IH ].
  - cbn. unfold a, b. right. field. lra.
  - assert (Hstep : a ^ S (S n) + r * b ^ S (S n) - ((/ a) ^ S n + r * (/ b) ^ S n)
      = a ^ S n + r * b ^ S n - ((/ a) ^ n + r * (/ b) ^ n)
        + q * (r - 1) * ((a ^ S n + (/ a) ^ S n) - (b ^ S n + (/ b) ^ S n))).
    { assert (Ea : (/ a) ^ n = a * (/ a) ^ S n) by (cbn [pow]; field; lra).
      assert (Eb : (/ b) ^ n = b * (/ b) ^ S n) by (cbn [pow]; field; lra).
      rewrite Ea, Eb. replace (a ^ S (S n)) with (a * a ^ S n) by reflexivity. replace (b ^ S (S n)) with (b * b ^ S n) by reflexivity.
      generalize (a ^ S n) (b ^ S n) ((/ a) ^ S n) ((/ b) ^ S n). intros A B A' B'.
      replace (r * (b * B)) with (r * (b - 1) * B + r * B) by ring.
      replace (r * (b * B')) with (r * (b - 1) * B' + r * B') by ring.
      rewrite Hrb. unfold a. ring. }
    assert (Hsign : 0 <= q * (r - 1) * ((a ^ S n + (/ a) ^ S n) - (b ^ S n + (/ b) ^ S n))).
    { destruct (Rle_or_lt 1 r) as [H1 | H1].
      - assert (b <= 1). { apply (Rmult_le_reg_l r); [ exact Hr | ]. nra. }
        assert (Hg := Hgrow a b (S n) Ha Hb Hab H). apply Rmult_le_pos; [ nra | lra ].
      - assert (a <= 1) by (unfold a; nra).
        assert (Hg := Hgrow b a (S n) Hb Ha ltac:(lra) H).
        replace (q * (r - 1) * ((a ^ S n + (/ a) ^ S n) - (b ^ S n + (/ b) ^ S n)))
          with (q * (1 - r) * ((b ^ S n + (/ b) ^ S n) - (a ^ S n + (/ a) ^ S n))) by ring.
        apply Rmult_le_pos; [ nra | lra ]. }
    lra.
Qed.

(** The record is not there and then it is. *)
Lemma adding sigma t0 d u v q rho n l : 0 < sigma -> sums_to (bell (/ (2 * sigma ^ 2)) 0) t0 -> 0 < q < 1 ->
  squared_distance d u v <= rho * sigma ^ 2 -> NoDup l ->
  finite_sum (fun x => whole (S n) (law sigma t0 d v x) (mix q (law sigma t0 d u x) (law sigma t0 d v x))) l
    <= sampled_moment (S n) q rho.
Proof.
  intros Hsigma Ht0 Hq Hd Hl.
  set (P := law sigma t0 d u). set (Q := law sigma t0 d v).
  set (f := fun x => whole (S n) (Q x) (mix q (P x) (Q x))).
  set (g := fun x => whole (S n) (mix q (P x) (Q x)) (Q x)).
  assert (HP : forall x, 0 < P x) by (intros x; now apply law_pos).
  assert (HQ : forall x, 0 < Q x) by (intros x; now apply law_pos).
  assert (HM : forall x, 0 < mix q (P x) (Q x)) by (intros x; unfold mix; specialize (HP x); specialize (HQ x); nra).
  assert (Hf : nonneg f) by (intros x; now apply whole_nonneg).
  assert (Hg : nonneg g) by (intros x; now apply whole_nonneg).
  set (k := nodup (point_eq d) (l ++ map (reflected d u v) l)).
  assert (Hk : NoDup k) by apply NoDup_nodup.
  assert (Hclosed : forall x, In x k -> In (reflected d u v x) k).
  { intros x. unfold k. rewrite !nodup_In, !in_app_iff, !in_map_iff. intros [H | (y & <- & H)].
    - right. now exists x.
    - left. now rewrite reflected_twice. }
  assert (Hsame : forall h : point d -> R, nonneg h -> finite_sum (fun x => h (reflected d u v x)) k = finite_sum h k).
  { intros h Hh. assert (Hnd : NoDup (map (reflected d u v) k)).
    { apply Injective_map_NoDup; [ | exact Hk ]. intros x y H. rewrite <- (reflected_twice d u v x), <- (reflected_twice d u v y). now f_equal. }
    rewrite <- finite_sum_map. apply Rle_antisym; apply finite_sum_incl; auto.
    - intros x Hx. apply in_map_iff in Hx. destruct Hx as (y & <- & Hy). now apply Hclosed.
    - intros x Hx. apply in_map_iff. exists (reflected d u v x). split; [ apply reflected_twice | now apply Hclosed ]. }
  apply Rle_trans with (finite_sum f k).
  { apply finite_sum_incl; auto. intros x Hx. unfold k. apply nodup_In, in_or_app. now left. }
  apply Rle_trans with (finite_sum g k).
  2: { now apply removing. }
  assert (Hpairs : finite_sum (fun x => f x + f (reflected d u v x)) k <= finite_sum (fun x => g x + g (reflected d u v x)) k).
  { apply finite_sum_le. intros x _. unfold f, g. destruct (reflected_law sigma t0 d u v x) as [E1 E2].
    fold P Q in E1, E2. rewrite E1, E2. specialize (HP x). specialize (HQ x). specialize (HM x).
    set (r := P x / Q x). assert (Hr : 0 < r) by now apply Rdiv_lt_0_compat.
    assert (H := both_ways q r n Hq Hr). cbv zeta in H.
    set (a := 1 - q + q * r) in *. set (b := 1 - q + q / r) in *.
    assert (Ha : 0 < a) by (unfold a; nra).
    assert (Hb : 0 < b). { unfold b, Rdiv. assert (0 < / r) by now apply Rinv_0_lt_compat. nra. }
    assert (EM : mix q (P x) (Q x) = Q x * a) by (unfold mix, a, r; field; lra).
    assert (EM' : mix q (Q x) (P x) = Q x * r * b) by (unfold mix, b, r; field; lra).
    assert (EP : P x = Q x * r) by (unfold r; field; lra).
    unfold whole. rewrite EM, EM', EP.
    replace (Q x / (Q x * a)) with (/ a) by (field; lra). replace (Q x * r / (Q x * r * b)) with (/ b) by (field; lra).
    replace (Q x * a / Q x) with a by (field; lra). replace (Q x * r * b / (Q x * r)) with b by (field; lra).
    replace (Q x * a * (/ a) ^ S n + Q x * r * b * (/ b) ^ S n) with (Q x * ((/ a) ^ n + r * (/ b) ^ n)) by (cbn [pow]; field; lra).
    replace (Q x * a ^ S n + Q x * r * b ^ S n) with (Q x * (a ^ S n + r * b ^ S n)) by ring.
    apply Rmult_le_compat_l; lra. }
  rewrite !finite_sum_plus in Hpairs. rewrite (Hsame f Hf), (Hsame g Hg) in Hpairs. lra.
Qed.

(** ** All samples *)

(** The law without the record, and with it. *)
Definition without {K} (w : K -> R) (samples : list K) sigma t0 d (v : K -> point d) (x : point d) : R :=
  finite_sum (fun k => w k * law sigma t0 d (v k) x) samples.
Definition with_record {K} (w : K -> R) (samples : list K) q sigma t0 d (u v : K -> point d) (x : point d) : R :=
  finite_sum (fun k => w k * mix q (law sigma t0 d (u k) x) (law sigma t0 d (v k) x)) samples.

Theorem sampled_release {K} (w : K -> R) samples q sigma t0 d (u v : K -> point d) rho n c :
  samples <> [] -> (forall k, 0 < w k) -> finite_sum w samples = 1 -> 0 < q < 1 -> 0 < sigma ->
  sums_to (bell (/ (2 * sigma ^ 2)) 0) t0 ->
  (forall k, squared_distance d (u k) (v k) <= rho * sigma ^ 2) ->
  sampled_moment (S n) q rho <= exp ((INR (S n) - 1) * (IZR c / unit_size)) ->
  bounded (INR (S n)) c (with_record w samples q sigma t0 d u v) (without w samples sigma t0 d v) /\
  bounded (INR (S n)) c (without w samples sigma t0 d v) (with_record w samples q sigma t0 d u v).
Proof.
  intros Hne Hw Hone Hq Hsigma Ht0 Hd Hc.
  assert (Hlaw : forall z x, 0 < law sigma t0 d z x) by (intros z x; now apply law_pos).
  assert (Hmix : forall k x, 0 < mix q (law sigma t0 d (u k) x) (law sigma t0 d (v k) x)).
  { intros k x. unfold mix. assert (H1 := Hlaw (u k) x). assert (H2 := Hlaw (v k) x). nra. }
  assert (Hout : forall x, 0 < without w samples sigma t0 d v x).
  { intros x. apply finite_sum_pos; [ exact Hne | ]. intros k. apply Rmult_lt_0_compat; auto. }
  assert (Hin : forall x, 0 < with_record w samples q sigma t0 d u v x).
  { intros x. apply finite_sum_pos; [ exact Hne | ]. intros k. apply Rmult_lt_0_compat; auto. }
  assert (Hexchange : forall (h : K -> point d -> R) l bound, (forall k, finite_sum (h k) l <= bound) ->
    finite_sum (fun x => finite_sum (fun k => w k * h k x) samples) l <= bound).
  { intros h l bound Hh.
    assert (Hswap : finite_sum (fun x => finite_sum (fun k => w k * h k x) samples) l
      = finite_sum (fun k => w k * finite_sum (h k) l) samples).
    { clear. induction l as [ | x l IH ]; cbn [finite_sum].
      - rewrite (finite_sum_ext _ (fun _ => 0)); [ now rewrite finite_sum_zero | intros; ring ].
      - rewrite IH, <- finite_sum_plus. apply finite_sum_ext. intros k. ring. }
    rewrite Hswap. apply Rle_trans with (finite_sum (fun k => bound * w k) samples).
    - apply finite_sum_le. intros k _. specialize (Hh k). specialize (Hw k). nra.
    - rewrite finite_sum_scale, Hone. lra. }
  split; (split; [ auto | ]); intros l Hl; (eapply Rle_trans; [ | exact Hc ]).
  - rewrite (finite_sum_ext _ (fun x => whole (S n) (with_record w samples q sigma t0 d u v x) (without w samples sigma t0 d v x)))
      by (intros x; now apply part_whole).
    eapply Rle_trans; [ apply finite_sum_le; intros x _; apply (radon (S n) w); auto | ].
    apply Hexchange. intros k. now apply removing.
  - rewrite (finite_sum_ext _ (fun x => whole (S n) (without w samples sigma t0 d v x) (with_record w samples q sigma t0 d u v x)))
      by (intros x; now apply part_whole).
    eapply Rle_trans; [ apply finite_sum_le; intros x _; apply (radon (S n) w); auto | ].
    apply Hexchange. intros k. now apply adding.
Qed.

(** What a sample gives is certified, whichever it is: the moment is that of the multiplier z. *)
Theorem certified_sample {K} (w : K -> R) samples q sigma t0 d (f g : K -> vector) z r n c :
  lattice_radius z 2 = Some r -> (forall k, is_certified (f k) r = true) -> (forall k, is_certified (g k) r = true) ->
  samples <> [] -> (forall k, 0 < w k) -> finite_sum w samples = 1 -> 0 < q < 1 -> 0 < sigma ->
  sigma ^ 2 = IZR LATTICE_VARIANCE -> sums_to (bell (/ (2 * sigma ^ 2)) 0) t0 ->
  sampled_moment (S n) q (/ Q2R z ^ 2) <= exp ((INR (S n) - 1) * (IZR c / unit_size)) ->
  let u := fun k => point_of d (f k) in let v := fun k => point_of d (g k) in
  bounded (INR (S n)) c (with_record w samples q sigma t0 d u v) (without w samples sigma t0 d v) /\
  bounded (INR (S n)) c (without w samples sigma t0 d v) (with_record w samples q sigma t0 d u v).
Proof.
  intros Hr Hf Hg Hne Hw Hone Hq Hsigma Hvar Ht0 Hc. cbv zeta.
  destruct (radius_over_noise z 2 r sigma Hr Hvar) as (Hratio & _).
  destruct (lattice_radius_sound z 2 r Hr) as (Hrange & _).
  apply (sampled_release w samples q sigma t0 d _ _ (/ Q2R z ^ 2)); auto.
  intros k. specialize (Hf k). specialize (Hg k). rewrite is_certified_exact in Hf, Hg by exact Hrange.
  apply Z.leb_le in Hf, Hg. apply IZR_le in Hf, Hg. rewrite Z.pow_2_r, mult_IZR in Hf, Hg.
  eapply Rle_trans; [ apply distance_of_two | ]. eapply Rle_trans; [ | exact Hratio ]. rewrite mult_IZR. nra.
Qed.
