(** The rule of weighted orders is a filter: whatever an analyst who adapts does, and whenever they
    stop, what the ledger's integers admit is (epsilon, delta)-private.

    An interaction is a tree. At each node the analyst, who may use everything seen so far, asks for
    a release with a cost; the answer is drawn from one distribution under one data set and from
    another under its neighbour. Outcomes may be of any countable set, finite or not: a statement
    about all finite sets of transcripts is one about all events ([filter_of_events]).

    What is assumed of a release is what its cost stands for: at each order where the cost is finite
    it bounds the Renyi divergence, in units of 2^-60 ([bounded]). That a certified release with
    discrete Gaussian noise is so is [Release.certified_release]. Nothing is assumed of composition:
    it is the induction in [potential_falls] and [filter_at]. *)

From Coq Require Import Reals List Lra Lia ZArith Psatz QArith Qreals Bool.
From Weir Require Import Python Code Sums.
Import ListNotations.
Open Scope R_scope.

(** ** Costs *)

Definition sum_at_order (a b : option Z) : option Z :=
  match a, b with Some a, Some b => Some (a + b)%Z | _, _ => None end.

Lemma cost_add_pointwise a b : cost_add a b = map2 sum_at_order a b.
Proof.
  unfold cost_add, units, py_zip, py_map, py_map2.
  destruct (py_has_none a || py_has_none b); unfold map2; apply map_ext; intros (x, y); reflexivity.
Qed.

Definition at_most_at_order (a b : option Z) : Prop :=
  match b with None => True | Some m => exists n, a = Some n /\ (n <= m)%Z end.
(** One cost is at most another at every order. *)
Definition cost_le : Cost -> Cost -> Prop := Forall2 at_most_at_order.

Definition cost_nonneg (c : Cost) : Prop := Forall (fun x => match x with Some n => (0 <= n)%Z | None => True end) c.

Lemma is_zero_spec c : is_zero c = true <-> Forall (fun x => x = Some 0%Z) c.
Proof.
  unfold is_zero, units, py_any, py_has_none. unfold py_truth at 1, truth_bool. split.
  - intros H. apply andb_true_iff in H. destruct H as [H1 H2].
    apply negb_true_iff in H1, H2. apply Forall_forall. intros x Hx.
    destruct x as [ n | ].
    + destruct (Z.eqb_spec n 0) as [-> | Hn]; [ reflexivity | ].
      assert (Ht : existsb py_truth c = true).
      { apply existsb_exists. exists (Some n). split; [ exact Hx | ]. cbn. apply negb_true_iff. now apply Z.eqb_neq. }
      congruence.
    + assert (Ht : existsb (fun x : option Z => match x with Some _ => false | None => true end) c = true).
      { apply existsb_exists. now exists None. }
      congruence.
  - intros H. rewrite Forall_forall in H. apply andb_true_iff. split; apply negb_true_iff.
    + destruct (existsb py_truth c) eqn:E; [ | reflexivity ].
      apply existsb_exists in E. destruct E as (x & Hx & Ht). rewrite (H x Hx) in Ht. discriminate.
    + destruct (existsb _ c) eqn:E; [ | reflexivity ].
      apply existsb_exists in E. destruct E as (x & Hx & Ht). rewrite (H x Hx) in Ht. discriminate.
Qed.

Lemma zero_sum a b : length a = length b -> cost_nonneg a -> cost_nonneg b -> is_zero (cost_add a b) = true ->
  is_zero a = true /\ is_zero b = true.
Proof.
  rewrite cost_add_pointwise, !is_zero_spec. revert b.
  induction a as [ | x a IH ]; intros [ | y b ] Hl Ha Hb H; try discriminate; [ split; constructor | ].
  inversion Ha; subst. inversion Hb; subst. cbn in H. inversion H as [ | ? ? Hxy Hrest ]; subst.
  destruct (IH b) as [Ha' Hb']; [ cbn in Hl; lia | assumption .. | ].
  destruct x as [ x | ], y as [ y | ]; cbn in Hxy; try discriminate. injection Hxy as Hxy.
  split; constructor; try assumption; f_equal; lia.
Qed.

Lemma cost_add_length a b : length a = length b -> length (cost_add a b) = length a.
Proof. intros H. rewrite cost_add_pointwise. unfold map2. rewrite map_length, combine_length. lia. Qed.

Lemma cost_add_nonneg a b : cost_nonneg a -> cost_nonneg b -> cost_nonneg (cost_add a b).
Proof.
  rewrite cost_add_pointwise. revert b.
  induction a as [ | x a IH ]; intros [ | y b ] Ha Hb; try constructor.
  - inversion Ha; inversion Hb; subst. destruct x, y; cbn; auto. lia.
  - inversion Ha; inversion Hb; subst. now apply IH.
Qed.

(** ** Orders, thresholds, and what is admitted *)

(** An order, with its share of delta. *)
Notation order := (R * R)%type.

Definition unit_size : R := IZR UNIT.
Lemma unit_positive : 0 < unit_size.
Proof. unfold unit_size. apply IZR_lt. reflexivity. Qed.

(** The offset of an order is at least log(1 - 1/a) - log(w delta a) / (a - 1), in units. *)
Definition offset_above (o : order) (offset : Z) : Prop :=
  1 < fst o /\ 0 < snd o /\
  ln (1 - / fst o) - ln (snd o * fst o) / (fst o - 1) <= IZR offset / unit_size.

Definition epsilon_of (rule : BudgetRule) : R := Q2R (epsilon (budget rule)).

Lemma py_min_in l : l <> [] -> In (py_min l) l.
Proof.
  destruct l as [ | x l ]; [ congruence | intros _ ]. cbn [py_min].
  assert (H : In (fold_right Z.min x l) (x :: l)); [ | exact H ].
  induction l as [ | y l IH ]; [ now left | ]. cbn [fold_right].
  destruct (Z.min_dec y (fold_right Z.min x l)) as [-> | ->]; [ right; now left | ].
  destruct IH as [IH | IH]; [ now left | right; now right ].
Qed.

(** What is admitted is nothing at all, or passes at some order. *)
Lemma admits_some_order rule c : admits rule c = true ->
  is_zero c = true \/ exists n offset, In (Some n, offset) (combine c (offsets rule)) /\
    IZR n / unit_size + IZR offset / unit_size <= epsilon_of rule.
Proof.
  unfold admits, spent_units, units, py_zip, ratio. cbv zeta.
  destruct (is_zero c) eqn:Hzero; [ now left | ]. cbn [py_truth truth_bool]. unfold py_truth at 1, truth_bool. right.
  set (finite := py_filter_map _ _) in *.
  unfold py_truth, truth_list in H. destruct finite as [ | x rest ] eqn:Hfinite; [ discriminate | ].
  unfold py_le, le_Z, py_mul, mul_Z in H. apply Z.leb_le in H.
  assert (Hin := py_min_in (x :: rest) ltac:(discriminate)).
  set (least := py_min (x :: rest)) in *. rewrite <- Hfinite in Hin. unfold finite in Hin.
  unfold py_filter_map in Hin. apply in_flat_map in Hin. destruct Hin as ((unit, offset) & Hin & Hx).
  destruct unit as [ n | ]; [ | destruct Hx ]. destruct Hx as [Hx | []].
  exists n, offset. split; [ exact Hin | ].
  assert (Hpos := unit_positive). unfold py_max in H.
  set (top := Qnum (epsilon (budget rule))) in *. set (bottom := Zpos (Qden (epsilon (budget rule)))) in *.
  assert (0 < bottom)%Z by (subst bottom; lia).
  assert (Hz : ((n + offset) * bottom <= top * UNIT)%Z).
  { unfold py_add, add_Z in Hx. nia. }
  apply IZR_le in Hz. rewrite !mult_IZR, plus_IZR in Hz.
  unfold epsilon_of, Q2R. fold top. fold bottom. change (IZR UNIT) with unit_size in Hz.
  assert (Hb : 0 < IZR bottom) by now apply IZR_lt.
  apply (Rmult_le_reg_r (unit_size * IZR bottom)); [ now apply Rmult_lt_0_compat | ].
  replace ((IZR n / unit_size + IZR offset / unit_size) * (unit_size * IZR bottom))
    with ((IZR n + IZR offset) * IZR bottom) by (field; lra).
  replace (IZR top * / IZR bottom * (unit_size * IZR bottom)) with (IZR top * unit_size) by (field; lra).
  exact Hz.
Qed.

(** ** Moments *)

(** What an outcome adds to the moment of an order; nothing where it cannot happen. *)
Definition part (alpha p q : R) : R := if Rlt_dec 0 p then Rpower p alpha * Rpower q (1 - alpha) else 0.

Lemma part_nonneg alpha p q : 0 <= part alpha p q.
Proof. unfold part. destruct (Rlt_dec 0 p); [ | lra ]. apply Rmult_le_pos; apply Rlt_le, exp_pos. Qed.

Lemma part_product alpha p q p' q' : 0 <= p -> 0 <= p' -> (0 < p -> 0 < q) -> (0 < p' -> 0 < q') ->
  part alpha (p * p') (q * q') = part alpha p q * part alpha p' q'.
Proof.
  intros Hp Hp' Hq Hq'. unfold part.
  destruct (Rlt_dec 0 p) as [H | H], (Rlt_dec 0 p') as [H' | H'].
  - destruct (Rlt_dec 0 (p * p')) as [_ | Hn]; [ | exfalso; apply Hn; now apply Rmult_lt_0_compat ].
    rewrite <- !Rpower_mult_distr; auto. ring.
  - replace p' with 0 by lra. rewrite Rmult_0_r. destruct (Rlt_dec 0 0); lra.
  - replace p with 0 by lra. rewrite Rmult_0_l. destruct (Rlt_dec 0 0); lra.
  - replace p with 0 by lra. rewrite Rmult_0_l. destruct (Rlt_dec 0 0); lra.
Qed.

(** A bound [n] of the divergence of order [alpha], in units. *)
Definition bounded {O} (alpha : R) (n : Z) (p q : O -> R) : Prop :=
  (forall o, 0 < p o -> 0 < q o) /\
  forall l, NoDup l -> finite_sum (fun o => part alpha (p o) (q o)) l <= exp ((alpha - 1) * (IZR n / unit_size)).

(** ** From divergence to (epsilon, delta) *)

Lemma ln_le_minus_one y : 0 < y -> ln y <= y - 1.
Proof.
  intros Hy. assert (H := exp_ineq1_le (ln y)). rewrite exp_ln in H by exact Hy. lra.
Qed.

Lemma exp_le_exp a b : a <= b -> exp a <= exp b.
Proof. intros [H | ->]; [ left; now apply exp_increasing | right; reflexivity ]. Qed.

(** (1 - u) u^(a - 1) is largest at u = 1 - 1 / a. *)
Lemma conversion alpha u : 1 < alpha -> 0 < u < 1 ->
  (alpha - 1) * ln u + ln (1 - u) <= (alpha - 1) * ln (1 - / alpha) - ln alpha.
Proof.
  intros Ha Hu. assert (Hinv : / alpha < 1) by (rewrite <- Rinv_1; apply Rinv_lt_contravar; lra).
  assert (Hpos : 0 < / alpha) by (apply Rinv_0_lt_compat; lra).
  assert (H1 := ln_le_minus_one (u / (1 - / alpha))). assert (H2 := ln_le_minus_one ((1 - u) * alpha)).
  rewrite ln_mult in H2 by lra. unfold Rdiv in H1.
  rewrite ln_mult, ln_Rinv in H1 by (try apply Rinv_0_lt_compat; lra).
  specialize (H1 ltac:(apply Rmult_lt_0_compat; [ lra | apply Rinv_0_lt_compat; lra ])).
  specialize (H2 ltac:(apply Rmult_lt_0_compat; lra)).
  assert (Hmul : (alpha - 1) * (ln u + - ln (1 - / alpha)) <= (alpha - 1) * (u * / (1 - / alpha) - 1)).
  { apply Rmult_le_compat_l; lra. }
  replace ((alpha - 1) * (u * / (1 - / alpha) - 1)) with (alpha * u - (alpha - 1)) in Hmul.
  2: { field. split; [ | lra ]. lra. }
  lra.
Qed.

(** The excess of one path, when an order passes. *)
Lemma excess_bounded alpha share s eps p q : 1 < alpha -> 0 < share -> 0 < p -> 0 < q ->
  s + (ln (1 - / alpha) - ln (share * alpha) / (alpha - 1)) <= eps ->
  p - exp eps * q <= share * exp (- ((alpha - 1) * s)) * (Rpower p alpha * Rpower q (1 - alpha)).
Proof.
  intros Ha Hw Hp Hq Hpass.
  assert (Hright : 0 <= share * exp (- ((alpha - 1) * s)) * (Rpower p alpha * Rpower q (1 - alpha))).
  { repeat apply Rmult_le_pos; try lra; apply Rlt_le, exp_pos. }
  destruct (Rle_or_lt p (exp eps * q)) as [Hsmall | Hlarge]; [ lra | ].
  set (u := exp eps * q / p).
  assert (He := exp_pos eps).
  assert (Hu : 0 < u < 1).
  { unfold u. split; [ apply Rdiv_lt_0_compat; [ now apply Rmult_lt_0_compat | lra ] | ].
    apply (Rmult_lt_reg_r p); [ exact Hp | ]. unfold Rdiv. rewrite Rmult_assoc, Rinv_l, Rmult_1_r, Rmult_1_l by lra. exact Hlarge. }
  replace (p - exp eps * q) with (p * (1 - u)) by (unfold u; field; lra).
  assert (Hconv := conversion alpha u Ha Hu).
  assert (Hlnu : ln u = eps + ln q - ln p).
  { unfold u, Rdiv. rewrite ln_mult, ln_mult, ln_exp, ln_Rinv; try lra.
    - now apply Rmult_lt_0_compat.
    - now apply Rinv_0_lt_compat. }
  (* take logarithms of both sides *)
  rewrite <- (exp_ln p) at 1 by exact Hp. rewrite <- (exp_ln (1 - u)) by lra.
  rewrite <- (exp_ln share) at 1 by exact Hw. unfold Rpower. rewrite <- !exp_plus.
  apply exp_le_exp.
  assert (Hscaled : (alpha - 1) * s + (alpha - 1) * ln (1 - / alpha) - ln share - ln alpha <= (alpha - 1) * eps).
  { rewrite ln_mult in Hpass by lra.
    apply (Rmult_le_compat_l (alpha - 1)) in Hpass; [ | lra ].
    replace ((alpha - 1) * (s + (ln (1 - / alpha) - (ln share + ln alpha) / (alpha - 1))))
      with ((alpha - 1) * s + (alpha - 1) * ln (1 - / alpha) - ln share - ln alpha) in Hpass by (field; lra).
    exact Hpass. }
  rewrite Hlnu in Hconv. nra.
Qed.

(** ** The potential *)

(** The sum over orders of share e^(-(a - 1) S(a)) p^a q^(1 - a); it starts at delta and falls. *)
Fixpoint potential (orders : list order) (spent : Cost) (p q : R) : R :=
  match orders, spent with
  | (alpha, share) :: orders, s :: spent =>
      match s with
      | Some n => share * exp (- ((alpha - 1) * (IZR n / unit_size))) * part alpha p q
      | None => 0
      end + potential orders spent p q
  | _, _ => 0
  end.

Lemma potential_nonneg orders spent p q : Forall (fun o : order => 0 < snd o) orders -> 0 <= potential orders spent p q.
Proof.
  intros H. revert spent. induction H as [ | (alpha, share) orders Ho H IH ]; intros [ | s spent ]; cbn; try lra.
  specialize (IH spent). cbn in Ho.
  assert (0 <= match s with Some n => share * exp (- ((alpha - 1) * (IZR n / unit_size))) * part alpha p q | None => 0 end).
  { destruct s; [ | lra ]. apply Rmult_le_pos; [ | apply part_nonneg ]. apply Rmult_le_pos; [ lra | apply Rlt_le, exp_pos ]. }
  lra.
Qed.

(** Where an order passes, the potential is above the excess of the path. *)
Lemma potential_above orders offs spent eps p q : Forall2 offset_above orders offs -> 0 < p -> 0 < q ->
  (exists n offset, In (Some n, offset) (combine spent offs) /\ IZR n / unit_size + IZR offset / unit_size <= eps) ->
  p - exp eps * q <= potential orders spent p q.
Proof.
  intros H Hp Hq. revert spent.
  induction H as [ | (alpha, share) offset orders offs Ho H IH ]; intros spent (n & off & Hin & Hpass).
  { destruct spent; destruct Hin. }
  destruct spent as [ | s spent ]; [ destruct Hin | ].
  assert (Hrest : Forall (fun o : order => 0 < snd o) orders).
  { clear - H. induction H as [ | o f orders offs Ho H IH ]; constructor; [ now destruct Ho as (_ & Ho & _) | exact IH ]. }
  destruct Ho as (Ha & Hw & Hoff). cbn [fst snd] in *.
  cbn [potential combine] in *. destruct Hin as [Heq | Hin].
  - injection Heq as -> ->. assert (Hr := potential_nonneg orders spent p q Hrest).
    assert (Hmain : p - exp eps * q <= share * exp (- ((alpha - 1) * (IZR n / unit_size))) * part alpha p q).
    { unfold part. destruct (Rlt_dec 0 p) as [_ | Hn]; [ | contradiction ]. apply excess_bounded; auto. lra. }
    lra.
  - assert (Hfirst : 0 <= match s with Some n => share * exp (- ((alpha - 1) * (IZR n / unit_size))) * part alpha p q | None => 0 end).
    { destruct s; [ | lra ]. apply Rmult_le_pos; [ | apply part_nonneg ]. apply Rmult_le_pos; [ lra | apply Rlt_le, exp_pos ]. }
    assert (Hi := IH spent). enough (p - exp eps * q <= potential orders spent p q) by lra. apply Hi. now exists n, off.
Qed.

(** What is spent makes the path under the neighbour possible too. *)
Definition possible (spent : Cost) (p q : R) : Prop := (exists n, In (Some n) spent) -> 0 < p -> 0 < q.

(** What a cost stands for: at each finite order a bound, and nothing at all for nothing. *)
Definition stands_for {O} (orders : list order) (c : Cost) (p q : O -> R) : Prop :=
  length c = length orders /\ cost_nonneg c /\ (forall o, 0 <= p o) /\ (forall o, 0 <= q o) /\
  (is_zero c = true -> forall o, p o = q o) /\
  Forall2 (fun (o : order) s => match s with Some n => bounded (fst o) n p q | None => True end) orders c.

Lemma finite_sum_plus {I} (f g : I -> R) l : finite_sum (fun i => f i + g i) l = finite_sum f l + finite_sum g l.
Proof. induction l as [ | x l IH ]; cbn; [ lra | rewrite IH; lra ]. Qed.

Lemma finite_sum_zero {I} (l : list I) : finite_sum (fun _ => 0) l = 0.
Proof. induction l as [ | x l IH ]; cbn; lra. Qed.

Lemma potential_falls {O} (orders : list order) spent c (P Q : O -> R) p q l :
  Forall (fun o : order => 0 < snd o) orders ->
  Forall2 (fun (o : order) s => match s with Some n => bounded (fst o) n P Q | None => True end) orders c ->
  (forall o, 0 <= P o) -> 0 <= p -> possible spent p q -> NoDup l ->
  finite_sum (fun o => potential orders (map2 sum_at_order spent c) (p * P o) (q * Q o)) l <= potential orders spent p q.
Proof.
  intros Hshares Hc HP Hp Hpq Hl. revert spent Hpq.
  induction Hc as [ | (alpha, share) s orders c Hs Hc IH ]; intros spent Hpq.
  { cbn. destruct spent; cbn; rewrite finite_sum_zero; lra. }
  inversion Hshares as [ | ? ? Hshare Hshares' ]; subst. cbn [fst snd] in *.
  destruct spent as [ | n spent ]; [ cbn; rewrite finite_sum_zero; lra | ].
  assert (Hrest : possible spent p q).
  { intros (m & Hm). apply Hpq. exists m. now right. }
  specialize (IH Hshares' spent Hrest).
  change (map2 sum_at_order (n :: spent) (s :: c)) with (sum_at_order n s :: map2 sum_at_order spent c).
  cbn [potential]. rewrite finite_sum_plus. apply Rplus_le_compat; [ | exact IH ]. clear IH.
  destruct n as [ n | ]; [ | cbn; rewrite finite_sum_zero; lra ].
  destruct s as [ m | ]; cbn [sum_at_order].
  2: { rewrite finite_sum_zero. apply Rmult_le_pos; [ | apply part_nonneg ]. apply Rmult_le_pos; [ lra | apply Rlt_le, exp_pos ]. }
  destruct Hs as (Habs & Hsum). specialize (Hsum l Hl).
  assert (Hq : 0 < p -> 0 < q) by (apply Hpq; exists n; now left).
  rewrite (finite_sum_ext _ (fun o => share * exp (- ((alpha - 1) * (IZR (n + m) / unit_size))) * part alpha p q * part alpha (P o) (Q o))).
  2: { intros o. rewrite part_product by auto. ring. }
  rewrite finite_sum_scale.
  apply Rle_trans with (share * exp (- ((alpha - 1) * (IZR (n + m) / unit_size))) * part alpha p q
                        * exp ((alpha - 1) * (IZR m / unit_size))).
  - apply Rmult_le_compat_l; [ | exact Hsum ].
    apply Rmult_le_pos; [ | apply part_nonneg ]. apply Rmult_le_pos; [ lra | apply Rlt_le, exp_pos ].
  - right. replace (- ((alpha - 1) * (IZR n / unit_size)))
      with (- ((alpha - 1) * (IZR (n + m) / unit_size)) + (alpha - 1) * (IZR m / unit_size)).
    + rewrite exp_plus. ring.
    + rewrite plus_IZR. field. assert (H := unit_positive). lra.
Qed.

(** ** Interactions *)

Inductive interaction (O : Type) : Type :=
| Over : interaction O
| Ask : Cost -> (O -> R) -> (O -> R) -> (O -> interaction O) -> interaction O.
Arguments Over {O}.
Arguments Ask {O}.

(** Probability of a transcript under one data set, and under its neighbour. *)
Fixpoint chance {O} (here : bool) (t : interaction O) (h : list O) : R :=
  match t, h with
  | Over, [] => 1
  | Ask _ p q next, o :: h => (if here then p o else q o) * chance here (next o) h
  | _, _ => 0
  end.

(** Every cost stands for its release. *)
Fixpoint charged {O} (orders : list order) (t : interaction O) : Prop :=
  match t with
  | Over => True
  | Ask c p q next => stands_for orders c p q /\ forall o, charged orders (next o)
  end.

(** However it ends, something that was admitted covers what was spent. *)
Fixpoint admitted {O} (rule : BudgetRule) (spent : Cost) (t : interaction O) : Prop :=
  match t with
  | Over => exists reserved, cost_le spent reserved /\ admits rule reserved = true
  | Ask c _ _ next => forall o, admitted rule (cost_add spent c) (next o)
  end.

Lemma chance_nonneg {O} orders (t : interaction O) here h : charged orders t -> 0 <= chance here t h.
Proof.
  revert h. induction t as [ | c p q next IH ]; intros [ | o h ] H; cbn; try lra.
  destruct H as ((_ & _ & Hp & Hq & _) & Hnext).
  apply Rmult_le_pos; [ destruct here; auto | apply IH, Hnext ].
Qed.

Lemma covers_zero spent reserved : cost_le spent reserved -> cost_nonneg spent -> is_zero reserved = true -> is_zero spent = true.
Proof.
  rewrite !is_zero_spec. intros H. induction H as [ | s r spent reserved Hs H IH ]; intros H0 Hz; [ constructor | ].
  inversion H0 as [ | ? ? Hs0 H0' ]; subst. inversion Hz as [ | ? ? -> Hz' ]; subst.
  constructor; [ | now apply IH ]. destruct Hs as (n & -> & Hn). f_equal. lia.
Qed.

Lemma covers_order (spent reserved : Cost) (offs : list Z) n offset : cost_le spent reserved -> In (Some n, offset) (combine reserved offs) ->
  exists m, In (Some m, offset) (combine spent offs) /\ (m <= n)%Z.
Proof.
  intros H. revert offs. induction H as [ | s r spent reserved Hs H IH ]; intros [ | off offs ] Hin; [ destruct Hin .. | ].
  destruct Hin as [Heq | Hin].
  - injection Heq as -> ->. destruct Hs as (m & -> & Hm). exists m. split; [ now left | exact Hm ].
  - destruct (IH offs Hin) as (m & Hm & Hle). exists m. split; [ now right | exact Hle ].
Qed.

Lemma leaf rule orders spent p q : Forall2 offset_above orders (offsets rule) -> 0 <= epsilon_of rule ->
  cost_nonneg spent -> 0 <= p -> 0 <= q -> possible spent p q -> (is_zero spent = true -> p = q) ->
  (exists reserved, cost_le spent reserved /\ admits rule reserved = true) ->
  p - exp (epsilon_of rule) * q <= potential orders spent p q.
Proof.
  intros Hoff Heps Hspent Hp Hq Hposs Hzero (reserved & Hle & Hadm).
  assert (Hshares : Forall (fun o : order => 0 < snd o) orders).
  { clear - Hoff. induction Hoff as [ | o f orders offs Ho H IH ]; constructor; [ now destruct Ho as (_ & Ho & _) | exact IH ]. }
  assert (H0 := potential_nonneg orders spent p q Hshares).
  assert (Hexp : 1 <= exp (epsilon_of rule)) by (rewrite <- exp_0; now apply exp_le_exp).
  destruct (Rle_lt_or_eq_dec 0 p Hp) as [Hpos | <-].
  2: { assert (0 <= exp (epsilon_of rule) * q) by (apply Rmult_le_pos; lra). lra. }
  apply admits_some_order in Hadm. destruct Hadm as [Hz | (n & offset & Hin & Hpass)].
  - specialize (Hzero (covers_zero _ _ Hle Hspent Hz)). subst q.
    assert (p <= exp (epsilon_of rule) * p) by (rewrite <- (Rmult_1_l p) at 1; apply Rmult_le_compat_r; lra). lra.
  - destruct (covers_order _ _ _ _ _ Hle Hin) as (m & Hm & Hmn).
    apply potential_above with (offs := offsets rule); auto.
    + apply Hposs; [ | exact Hpos ]. exists m. apply in_combine_l in Hm. exact Hm.
    + exists m, offset. split; [ exact Hm | ]. apply IZR_le in Hmn.
      assert (Hdiv : IZR m / unit_size <= IZR n / unit_size).
      { apply Rmult_le_compat_r; [ apply Rlt_le, Rinv_0_lt_compat, unit_positive | exact Hmn ]. }
      lra.
Qed.

(** ** Transcripts by their first outcome *)

Fixpoint heads {O} (l : list (list O)) : list O :=
  match l with [] => [] | [] :: l => heads l | (o :: _) :: l => o :: heads l end.
Fixpoint tails {O} (eqO : forall x y : O, {x = y} + {x <> y}) (o : O) (l : list (list O)) : list (list O) :=
  match l with
  | [] => []
  | [] :: l => tails eqO o l
  | (o' :: h) :: l => if eqO o o' then h :: tails eqO o l else tails eqO o l
  end.

Lemma in_tails {O} eqO (o : O) l h : In h (tails eqO o l) <-> In (o :: h) l.
Proof.
  induction l as [ | [ | o' h' ] l IH ]; cbn; [ tauto | | ].
  - rewrite IH. split; [ now right | intros [ | ]; [ discriminate | assumption ] ].
  - destruct (eqO o o') as [<- | Hne]; cbn; rewrite IH.
    + split; [ intros [<- | ]; auto | intros [H | ]; [ left; congruence | now right ] ].
    + split; [ now right | intros [H | ]; [ congruence | assumption ] ].
Qed.

Lemma in_heads {O} (o : O) l h : In (o :: h) l -> In o (heads l).
Proof.
  induction l as [ | [ | o' h' ] l IH ]; cbn; [ auto | | ].
  - intros [ | ]; [ discriminate | auto ].
  - intros [H | ]; [ left; congruence | right; auto ].
Qed.

Lemma NoDup_tails {O} eqO (o : O) l : NoDup l -> NoDup (tails eqO o l).
Proof.
  induction 1 as [ | h l Hh Hl IH ]; cbn; [ constructor | ]. destruct h as [ | o' h ]; [ exact IH | ].
  destruct (eqO o o') as [<- | ]; [ | exact IH ]. constructor; [ | exact IH ]. now rewrite in_tails.
Qed.

Lemma finite_sum_flat_map {I J} (f : J -> R) (g : I -> list J) l :
  finite_sum f (flat_map g l) = finite_sum (fun i => finite_sum f (g i)) l.
Proof. induction l as [ | x l IH ]; cbn; [ reflexivity | rewrite finite_sum_app, IH; reflexivity ]. Qed.

Lemma by_first_outcome {O} (eqO : forall x y : O, {x = y} + {x <> y}) (f : list O -> R) l :
  nonneg f -> f [] = 0 -> NoDup l ->
  finite_sum f l <= finite_sum (fun o => finite_sum (fun h => f (o :: h)) (tails eqO o l)) (nodup eqO (heads l)).
Proof.
  intros Hf Hnil Hl.
  set (grouped := flat_map (fun o => map (cons o) (tails eqO o l)) (nodup eqO (heads l))).
  assert (Hincl : incl l ([] :: grouped)).
  { intros [ | o h ] Hh; [ now left | right ]. unfold grouped. apply in_flat_map. exists o. split.
    - apply nodup_In. now apply in_heads in Hh.
    - apply in_map. now apply in_tails. }
  eapply Rle_trans; [ apply (finite_sum_incl f l _ Hf Hl Hincl) | ].
  cbn. rewrite Hnil. unfold grouped. rewrite finite_sum_flat_map. right. rewrite Rplus_0_l.
  apply finite_sum_ext. intros o. now rewrite finite_sum_map.
Qed.

Lemma one_place {I} (f : I -> R) x l : nonneg f -> (forall y, y = x \/ f y = 0) -> NoDup l -> finite_sum f l <= f x.
Proof.
  intros Hf Hx Hl. induction Hl as [ | y l Hy Hl IH ]; cbn; [ apply Hf | ].
  destruct (Hx y) as [-> | H0]; [ | lra ].
  enough (finite_sum f l <= 0) by lra. clear IH.
  induction l as [ | z l IHl ]; cbn; [ lra | ].
  assert (Hz : f z = 0). { destruct (Hx z) as [-> | H0]; [ | exact H0 ]. contradiction Hy. now left. }
  inversion Hl; subst. rewrite Hz. enough (finite_sum f l <= 0) by lra. apply IHl; [ | assumption ].
  intros Hin. apply Hy. now right.
Qed.

(** ** The theorem *)

Definition excess {O} (eps p q : R) (t : interaction O) (h : list O) : R :=
  Rmax 0 (p * chance true t h - exp eps * (q * chance false t h)).

Theorem filter_at {O} (eqO : forall x y : O, {x = y} + {x <> y}) rule orders (t : interaction O) :
  Forall2 offset_above orders (offsets rule) -> 0 <= epsilon_of rule -> charged orders t ->
  forall spent p q, length spent = length orders -> cost_nonneg spent -> 0 <= p -> 0 <= q ->
  possible spent p q -> (is_zero spent = true -> p = q) -> admitted rule spent t ->
  forall transcripts, NoDup transcripts ->
  finite_sum (excess (epsilon_of rule) p q t) transcripts <= potential orders spent p q.
Proof.
  intros Hoff Heps.
  assert (Hshares : Forall (fun o : order => 0 < snd o) orders).
  { clear - Hoff. induction Hoff as [ | o f orders offs Ho H IH ]; constructor; [ now destruct Ho as (_ & Ho & _) | exact IH ]. }
  induction t as [ | c P Q next IH ]; intros Hcharged spent p q Hlen Hspent Hp Hq Hposs Hzero Hadm l Hl.
  - eapply Rle_trans; [ apply (one_place _ [] l); [ | | exact Hl ] | ].
    + intros h. apply Rmax_l.
    + intros [ | o h ]; [ now left | right ]. unfold excess. cbn. rewrite !Rmult_0_r, Rminus_0_r. apply Rmax_left. lra.
    + unfold excess. cbn. rewrite !Rmult_1_r. apply Rmax_lub; [ now apply potential_nonneg | ].
      now apply (leaf rule).
  - cbn in Hcharged, Hadm. destruct Hcharged as ((Hclen & Hc0 & HP & HQ & Hsame & Hbounds) & Hnext).
    assert (Hf0 : nonneg (excess (epsilon_of rule) p q (Ask c P Q next))) by (intros h; apply Rmax_l).
    eapply Rle_trans; [ apply (by_first_outcome eqO _ l Hf0); [ | exact Hl ] | ].
    { unfold excess. cbn. rewrite !Rmult_0_r, Rminus_0_r. apply Rmax_left. lra. }
    eapply Rle_trans; [ | apply (potential_falls orders spent c P Q p q (nodup eqO (heads l))); auto; apply NoDup_nodup ].
    apply finite_sum_le. intros o _.
    rewrite (finite_sum_ext _ (excess (epsilon_of rule) (p * P o) (q * Q o) (next o))).
    2: { intros h. unfold excess. cbn [chance]. f_equal. ring. }
    rewrite <- cost_add_pointwise.
    apply IH; auto using NoDup_tails, Rmult_le_pos, cost_add_nonneg.
    + rewrite cost_add_length; congruence.
    + (* what was possible stays possible *)
      intros (m & Hm) Hpos.
      assert (Hboth : exists a b, In (Some a) spent /\ In (Some b) c /\
        exists o', In (o', Some b) (combine orders c)).
      { rewrite cost_add_pointwise in Hm. unfold map2 in Hm. apply in_map_iff in Hm.
        destruct Hm as ((a, b) & Hab & Hin). destruct a as [ a | ], b as [ b | ]; try discriminate.
        exists a, b. split; [ now apply in_combine_l in Hin | ]. apply in_combine_r in Hin. split; [ exact Hin | ].
        clear - Hin Hclen. revert orders Hclen. induction c as [ | x c IHc ]; intros [ | y orders ] Hlen; try destruct Hin; try discriminate.
        - subst x. exists y. now left.
        - destruct (IHc H orders) as (o' & Ho'); [ cbn in Hlen; lia | ]. exists o'. now right. }
      destruct Hboth as (a & b & Ha & Hb & o' & Ho').
      assert (0 < p /\ 0 < P o) as [Hp1 HPo].
      { specialize (HP o). split.
        - destruct (Rle_lt_or_eq_dec 0 p Hp) as [ | E ]; [ assumption | ]. rewrite <- E in Hpos. lra.
        - destruct (Rle_lt_or_eq_dec 0 (P o) HP) as [ | E ]; [ assumption | ]. rewrite <- E in Hpos. lra. }
      apply Rmult_lt_0_compat; [ apply Hposs; [ now exists a | exact Hp1 ] | ].
      assert (Hb' : bounded (fst o') b P Q).
      { clear - Hbounds Ho'. induction Hbounds as [ | x s orders c Hs H IHb ]; [ destruct Ho' | ].
        destruct Ho' as [Heq | Hin]; [ | now apply IHb ]. injection Heq as -> ->. exact Hs. }
      now apply Hb'.
    + intros Hz. destruct (zero_sum spent c) as [Hz1 Hz2]; auto; [ congruence | ].
      rewrite (Hzero Hz1), (Hsame Hz2 o). reflexivity.
Qed.

Lemma potential_of_nothing orders : potential orders (map (fun _ => Some 0%Z) orders) 1 1 = finite_sum snd orders.
Proof.
  induction orders as [ | (alpha, share) orders IH ]; cbn; [ reflexivity | ]. rewrite IH. f_equal.
  unfold part. destruct (Rlt_dec 0 1) as [_ | H]; [ | lra ]. unfold Rpower. rewrite ln_1.
  replace (- ((alpha - 1) * (0 / unit_size))) with 0 by (unfold Rdiv; ring).
  rewrite !Rmult_0_r, exp_0. ring.
Qed.

(** For every finite set of transcripts, and with both names of the data sets. *)
Theorem weighted_orders_are_a_filter {O} (eqO : forall x y : O, {x = y} + {x <> y}) rule orders delta (t : interaction O) :
  Forall2 offset_above orders (offsets rule) -> finite_sum snd orders <= delta -> 0 <= epsilon_of rule ->
  charged orders t -> admitted rule (map (fun _ => Some 0%Z) orders) t ->
  forall transcripts, NoDup transcripts ->
  finite_sum (chance true t) transcripts <= exp (epsilon_of rule) * finite_sum (chance false t) transcripts + delta.
Proof.
  intros Hoff Hdelta Heps Hcharged Hadm l Hl.
  assert (H := filter_at eqO rule orders t Hoff Heps Hcharged (map (fun _ => Some 0%Z) orders) 1 1).
  specialize (H ltac:(apply map_length)).
  specialize (H ltac:(apply Forall_forall; intros x Hx; apply in_map_iff in Hx; destruct Hx as (o & <- & _); lia)).
  specialize (H ltac:(lra) ltac:(lra) ltac:(intros _ _; lra) ltac:(reflexivity) Hadm l Hl).
  rewrite potential_of_nothing in H.
  assert (Hsum : finite_sum (chance true t) l - exp (epsilon_of rule) * finite_sum (chance false t) l
    <= finite_sum (excess (epsilon_of rule) 1 1 t) l).
  { rewrite <- finite_sum_scale. clear. induction l as [ | h l IH ]; cbn; [ lra | ].
    assert (Hm := Rmax_r 0 (1 * chance true t h - exp (epsilon_of rule) * (1 * chance false t h))).
    unfold excess at 1. lra. }
  lra.
Qed.

(** For every event, finite or not. *)
Theorem filter_of_events {O} (eqO : forall x y : O, {x = y} + {x <> y}) rule orders delta (t : interaction O)
  (event : list O -> bool) here there :
  Forall2 offset_above orders (offsets rule) -> finite_sum snd orders <= delta -> 0 <= epsilon_of rule ->
  charged orders t -> admitted rule (map (fun _ => Some 0%Z) orders) t ->
  sums_to (fun h => if event h then chance true t h else 0) here ->
  sums_to (fun h => if event h then chance false t h else 0) there ->
  here <= exp (epsilon_of rule) * there + delta.
Proof.
  intros Hoff Hdelta Heps Hcharged Hadm Hhere Hthere.
  apply (sums_lower _ _ _ Hhere). intros l Hl.
  assert (Hfilter : forall side k, finite_sum (fun h => if event h then chance side t h else 0) k
    = finite_sum (chance side t) (filter event k)).
  { intros side k. induction k as [ | h k IH ]; cbn; [ reflexivity | ]. destruct (event h); cbn; lra. }
  rewrite Hfilter.
  eapply Rle_trans; [ apply (weighted_orders_are_a_filter eqO rule orders delta t); auto; now apply NoDup_filter | ].
  apply Rplus_le_compat_r, Rmult_le_compat_l; [ apply Rlt_le, exp_pos | ].
  rewrite <- Hfilter. now apply sums_upper.
Qed.
